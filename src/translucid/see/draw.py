"""From a picture to a drawing: one layout for pages, notebooks and files."""

from translucid.see.draw_charts import draw_bars, draw_lines
from translucid.see.draw_tables import draw_grid, draw_heat
from translucid.see.picture_data import Bars, Grid, Heat, Lines, Picture
from translucid.see.render.drawing import Drawing


def draw(picture: Picture) -> Drawing:
    match picture:
        case Grid():
            return draw_grid(picture)
        case Heat():
            return draw_heat(picture)
        case Lines():
            return draw_lines(picture)
        case Bars():
            return draw_bars(picture)
        case _:
            raise TypeError(f"nobody knows how to draw a {type(picture).__name__}")
