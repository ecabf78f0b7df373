// Hands on the keyboard: a picture is one tab stop, arrows walk over its marks; and what had the focus has it again
// after a redraw.
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// start() and step(place, down, across) give a place; look(place) shows it as the pointer would; take(place) is a
// click.
export function walks(el, { name, start, step, look, leave, take }) {
  let at = null;
  for (const [key, value] of Object.entries({
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'picture',
    'aria-label': `${name}; arrows walk over it${take ? ', Enter takes' : ''}`,
  }))
    el.setAttribute(key, value);
  const stand = place => {
    if (place === null || place === undefined) return;
    at = place;
    look(at);
  };
  el.addEventListener('focus', () => {
    if (el.matches(':focus-visible')) stand(start());
  });
  el.addEventListener('blur', () => {
    if (at !== null) {
      at = null;
      leave();
    }
  });
  el.addEventListener('keydown', event => {
    const move = MOVES[event.key];
    const taken = take && at !== null && (event.key === 'Enter' || event.key === ' ');
    if (!move && !taken) return;
    event.preventDefault();
    event.stopPropagation(); // the view has other uses for these keys
    if (move) stand(at === null ? start() : step(at, ...move));
    else take(at);
  });
}

const FOCUSABLE = 'a[href],button,input,select,[tabindex]';
const known = el => el.getAttribute('aria-label') || el.getAttribute('title') || el.textContent;
// Call before a box is drawn anew; what it returns gives the focus back to what has the same name, or the same place.
export function keepFocus(box) {
  const el = document.activeElement;
  if (!el || el === box || !box.contains(el)) return () => {};
  const all = [...box.querySelectorAll(FOCUSABLE)];
  const place = all.indexOf(el);
  const name = known(el);
  const tag = el.tagName;
  return () => {
    if (document.activeElement !== document.body) return; // somebody else has it now
    const now = [...box.querySelectorAll(FOCUSABLE)].filter(each => each.tagName === tag || tag === 'INPUT');
    (now.find(each => known(each) === name) ?? (all.length === now.length ? now[place] : null))?.focus({
      preventScroll: true,
    });
  };
}
