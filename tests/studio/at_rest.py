"""Read a page only when it is idle: no answer, timer or transition is pending.

The page draws some time after the key press that caused it, on a busy machine much later.
Therefore, everything that a test does with `page.inner` waits until the page is idle, except waits,
navigation and listeners.

With TRANSLUCID_SLOW_PAGE=400 in the environment, every answer arrives 400 ms late, which finds
tests that do not wait, even on a machine that is not busy.
"""

import os
from typing import Any

PATIENCE = 180_000  # milliseconds; enough for a busy machine
POLLING = 20  # milliseconds; Playwright would draw a frame before each look
LATE = int(os.environ.get("TRANSLUCID_SLOW_PAGE") or 0)  # delay of every answer in milliseconds
AT_ONCE = (
    "wait_for_", "expect_", "on", "remove_listener", "route", "unroute", "goto", "reload", "context"
)  # fmt: skip

# Timers of more than half a second do not draw answers; some report that an answer is late.
COUNTED = """(() => {
  const [ask, wait, clear] = [window.fetch, window.setTimeout, window.clearTimeout];
  const timers = new Set();
  let answers = 0;
  const counted = promise => {
    const over = () => { answers -= 1; };
    answers += 1;
    promise.then(over, over);
    return promise;
  };
  const late = LATE ? () => new Promise(go => wait(go, LATE)) : null;
  window.fetch = (...words) => counted(late ? late().then(() => ask(...words)) : ask(...words));
  for (const form of ['text', 'json', 'arrayBuffer', 'blob']) {
    const read = Response.prototype[form];
    Response.prototype[form] = function () { return counted(read.call(this)); };
  }
  window.setTimeout = (act, ms = 0, ...words) => {
    const timer = wait(() => { timers.delete(timer); act(...words); }, ms);
    if (ms <= 500) timers.add(timer);
    return timer;
  };
  window.clearTimeout = timer => { timers.delete(timer); clear(timer); };
  const moves = each =>
    each.playState === 'running' && each.effect.getComputedTiming().endTime < Infinity;
  window.atRest = () =>
    !answers && !timers.size && document.readyState === 'complete' &&
    document.fonts.status === 'loaded' && !document.getAnimations().some(moves);
})()""".replace("LATE", str(LATE))
NOW = "() => !window.atRest || window.atRest()"
FRAMES = "() => new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)))"


class AtRest:
    """A wrapper of Playwright's page that waits until the page is idle before each access."""

    def __init__(self, page: Any) -> None:
        self.at_once = page  # for access without waiting
        page.add_init_script(COUNTED)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(AT_ONCE):
            self.rest()
        return getattr(self.at_once, name)

    def wait_for_function(self, condition: str, arg: Any = None, timeout: float = PATIENCE) -> None:
        self.at_once.wait_for_function(condition, arg=arg, timeout=timeout, polling=POLLING)

    def rest(self) -> None:
        if not self.at_once.evaluate(NOW):  # asking is cheaper than waiting
            self.wait_for_function(NOW)

    def set_viewport_size(self, size: Any) -> None:
        """Resize the window and wait for two frames, because resize observers run with the next
        frame."""
        self.at_once.set_viewport_size(size)
        self.at_once.evaluate(FRAMES)
