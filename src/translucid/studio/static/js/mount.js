// One studio in an element. graph, STYLE, MARKUP and FONT stand around this module in a bundle (studio/page_bundle.py).
import { makePlace } from './place.js';

// The face of formulas belongs to the whole document, whatever box uses it.
function faced(page) {
  if ([...page.fonts].some(face => face.family.includes('Studio Math'))) return;
  const bytes = Uint8Array.from(atob(FONT), letter => letter.charCodeAt(0));
  page.fonts.add(new FontFace('Studio Math', bytes.buffer));
}
export function mount(el, given) {
  faced(el.ownerDocument);
  const place = makePlace(el, { ...given, style: STYLE, markup: MARKUP });
  graph(place)('main.js'); // draws as soon as it is loaded
  return place;
}
