"""A page is read only when nothing is under way in it: no answer, no timer, no transition.

What the page draws comes later than the key that asked for it, on a busy machine much later. So
whatever a test does with `page.inner` waits first until the page is at rest; only waits, navigation
and listeners do not.

With TRANSLUCID_SLOW_PAGE=400 in the environment every answer comes 400 ms late: this is how a test
that does not wait is found, on a machine that is not busy.
"""

import os
from typing import Any

PATIENCE = 180_000  # milliseconds, on a machine that is busy
LATE = int(os.environ.get("TRANSLUCID_SLOW_PAGE") or 0)  # milliseconds
AT_ONCE = (
    "wait_for_", "expect_", "on", "remove_listener", "route", "unroute", "goto", "reload", "context"
)  # fmt: skip

# A longer timer than half a second draws nothing that was asked for: an answer is late, or so.
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
    """Playwright's page, which waits before it is touched."""

    def __init__(self, page: Any) -> None:
        self.at_once = page  # for what must come in between
        page.add_init_script(COUNTED)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(AT_ONCE):
            self.rest()
        return getattr(self.at_once, name)

    def rest(self) -> None:
        if not self.at_once.evaluate(NOW):  # a wait costs more than a question
            self.at_once.wait_for_function(NOW, timeout=PATIENCE)

    def set_viewport_size(self, size: Any) -> None:
        """Who watches sizes hears of them with the next frame."""
        self.at_once.set_viewport_size(size)
        self.at_once.evaluate(FRAMES)
