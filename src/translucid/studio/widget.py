"""Views of the studio as notebook widgets: `model.studio("text", view="attention")`.

A widget needs no server: its requests arrive through the notebook and are answered by the same
functions as those of the page.
"""

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any
from urllib.parse import urlencode
from weakref import WeakValueDictionary

import anywidget
import traitlets

from translucid.core.errors import InputError
from translucid.studio.handlers import Handlers
from translucid.studio.library import Library
from translucid.studio.page_bundle import bundle, view_names
from translucid.studio.page_model import StudioModel
from translucid.studio.run_follower import RunFollower, is_run
from translucid.studio.server.questions import json_reply

VIEWS = view_names()
HEIGHTS = (300, 4000)  # px
# Handlers by the ids of their models, which live as long as the handlers.
_HANDLERS: WeakValueDictionary[tuple[int, ...], Handlers] = WeakValueDictionary()


class StudioWidget(anywidget.AnyWidget):
    """A notebook widget that shows one view. `widget.address` works like the page's address bar."""

    _esm = bundle("widget.js") + "export default { render: studio.render };\n"
    address = traitlets.Unicode("#/flow").tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)

    def __init__(self, handlers: Handlers, **keys: Any) -> None:
        super().__init__(**keys)
        self.handlers = handlers
        self.on_msg(self._answer)

    def _answer(self, widget: Any, message: Any, buffers: Any) -> None:
        match message:
            case {"of": of, "id": number, "method": str(method), "path": str(path)}:
                asked = str(message.get("body") or "").encode("utf-8", "replace")
            case _:
                return
        try:
            reply = self.handlers.ask(method, path, asked)
        except Exception as error:  # otherwise the page would wait forever
            answer = f"internal error in the studio: {type(error).__name__}: {error}"
            reply = json_reply({"error": answer}, 500)
        head = {"of": of, "id": number, "status": reply.status, "kind": reply.kind}
        self.send(head, [reply.body])


def widget(
    model: StudioModel,
    text: str | None,
    *,
    view: str,
    height: int,
    compare_with: Sequence[StudioModel],
    **keys: str,
) -> StudioWidget:
    """Create a widget; `keys` are further keys of the address, such as at, head, pin, theme."""
    if view not in VIEWS:
        raise InputError(f"view {view!r}: expected one of {', '.join(VIEWS)}")
    if not HEIGHTS[0] <= height <= HEIGHTS[1]:
        raise InputError(f"height must be from {HEIGHTS[0]} to {HEIGHTS[1]} pixels, not {height}")
    if view == "compare" and not compare_with:
        raise InputError("view 'compare' needs a second model: compare_with=[other]")
    if view == "train" and followed_run(model) is None:
        raise InputError("view 'train' needs a model from its run folder: tl.load(\"runs/x\")")
    query = {"hide": "bar", **({} if text is None else {"text": text}), **keys}
    return StudioWidget(
        _handlers(model, compare_with), address=f"#/{view}?{urlencode(query)}", height=height
    )


def _handlers(model: StudioModel, compare_with: Sequence[StudioModel]) -> Handlers:
    """The handlers for these models, shared by all their widgets."""
    models = [model, *compare_with]
    key = tuple(id(one) for one in models)
    handlers = _HANDLERS.get(key)
    if handlers is None:
        names = ["model", *(f"model {number}" for number in range(2, 1 + len(models)))]
        runs = dict(zip(ascii_lowercase, map(followed_run, models), strict=False))
        followed = {key: run for key, run in runs.items() if run is not None}
        handlers = _HANDLERS[key] = Handlers(
            Library(dict(zip(names, models, strict=True))), followed
        )
    return handlers


def followed_run(model: StudioModel) -> RunFollower | None:
    """The training run of a model that was loaded from its run folder."""
    folder = model.folder
    return RunFollower(folder, folder.name) if folder is not None and is_run(folder) else None
