// One studio in an element. graph, STYLE and MARKUP stand around this module in a bundle (studio/bundle.py).
import { makePlace } from './place.js';

export function mount(el, given) {
  const place = makePlace(el, { ...given, style: STYLE, markup: MARKUP });
  graph(place)('main.js'); // draws as soon as it is loaded
  return place;
}
