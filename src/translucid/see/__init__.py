"""Inspect a model: figures, tables and text from a trace; gradients, saliency, ablation."""

from typing import TYPE_CHECKING

from translucid.core.lazy import lazy_exports

if TYPE_CHECKING:  # for type checkers and editors; must agree with the table below
    from translucid.see.part_switches import choose as choose
    from translucid.see.part_switches import switches as switches
    from translucid.see.part_switches import together as together
    from translucid.see.pictures import Axis as Axis
    from translucid.see.pictures import Bars as Bars
    from translucid.see.pictures import Grid as Grid
    from translucid.see.pictures import Heat as Heat
    from translucid.see.pictures import Lines as Lines
    from translucid.see.pictures import Picture as Picture
    from translucid.see.render.drawing import SIZE as SIZE
    from translucid.see.render.drawing import Drawing as Drawing
    from translucid.see.render.drawing import TextMark as TextMark
    from translucid.see.render.drawing import svg as svg
    from translucid.see.render.frame import escape as escape
    from translucid.see.render.frame import folded as folded
    from translucid.see.render.frame import page as page
    from translucid.see.render.frame import table as table

# Number of steps for integrated gradients: a trained Transformer's output may change abruptly along
# the path, and 64 steps can miss a third of the change.
INTEGRATION_STEPS = 256

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "part_switches": ["choose", "switches", "together"],
        "pictures": ["Axis", "Bars", "Grid", "Heat", "Lines", "Picture"],
        "render.drawing": ["Drawing", "SIZE", "TextMark", "svg"],
        "render.frame": ["escape", "folded", "page", "table"],
    },
)
