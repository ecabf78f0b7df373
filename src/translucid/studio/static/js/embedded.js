// The environment of an embedded studio: a notebook's box, or a file without a server. In a bundle
// (studio/page_bundle.py), the modules' document, location, history, fetch and addEventListener are those created here,
// so each box has its own state, keys, address and styles.
import { hasModifier } from './keyboard.js';
import { scaleFor } from './scale.js';

const WIDE = 1200; // px, where the page is laid out in full
const LARGE = 1600; // px, where it grows
const OURS = new Set(['hashchange', 'resize']); // told by the place itself; all else happens in the box

/** @type {(el: HTMLElement, given: PlaceOptions & { style: string; markup: string }) => PlaceMade} */
function makePlace(el, { ask, address, onaddress = () => {}, height, around, whole = false, style, markup }) {
  const page = el.ownerDocument;
  const events = new EventTarget();
  const host = page.createElement('div');
  const shadow = host.attachShadow({ mode: 'open' });
  host.setAttribute('data-lm-suppress-shortcuts', 'true'); // JupyterLab: letters typed here are not its commands
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`${style}\n${BOX}`);
  shadow.adoptedStyleSheets = [sheet];
  const room = box('studio-room');
  const root = box('studio');
  const body = box('studio-body');
  /** @type {(name: string) => HTMLElement} */
  function box(name) {
    const made = page.createElement('div');
    made.className = name;
    return made;
  }
  room.style.height = height;
  root.tabIndex = -1;
  if (around) root.dataset.around = around; // light or dark, where the page must look like what it stands in
  body.append(
    ...page.importNode(new DOMParser().parseFromString(markup, 'application/xhtml+xml').documentElement, true)
      .childNodes,
  ); // our own index.html
  root.append(body);
  room.append(root);
  shadow.append(room);
  el.append(host);

  let hash = address;
  const told = () => onaddress(hash);
  const location = {
    get hash() {
      return hash;
    },
    set hash(to) {
      if (to === hash) return;
      hash = to;
      told();
      queueMicrotask(() => events.dispatchEvent(new Event('hashchange')));
    },
    get href() {
      return hash;
    },
    host: '', // no server, so no socket to one
    toString: () => hash,
  };
  const history = {
    /** @type {(state: unknown, title: string, to: string) => void} */
    replaceState: (_state, _title, to) => {
      hash = to;
      told();
    },
    /** @type {(state: unknown, title: string, to: string) => void} */
    pushState: (_state, _title, to) => {
      hash = to;
      told();
    },
  };
  /** @type {(kind: string) => EventTarget} */
  const target = kind => (OURS.has(kind) ? events : root);
  /** @type {(kind: string, act: EventListener, also?: AddEventListenerOptions) => void} */
  const addEventListener = (kind, act, also) => target(kind).addEventListener(kind, act, also);
  /** @type {(kind: string, act: EventListener, also?: EventListenerOptions) => void} */
  const removeEventListener = (kind, act, also) => target(kind).removeEventListener(kind, act, also);
  const document = {
    title: '',
    documentElement: root,
    body,
    head: shadow,
    styleSheets: [sheet],
    addEventListener,
    removeEventListener,
    get activeElement() {
      return shadow.activeElement;
    },
    get fonts() {
      return page.fonts;
    },
    get hidden() {
      return page.hidden;
    },
    getElementById: shadow.getElementById.bind(shadow),
    querySelector: root.querySelector.bind(root),
    querySelectorAll: root.querySelectorAll.bind(root),
    createElement: page.createElement.bind(page),
    createElementNS: page.createElementNS.bind(page),
    importNode: page.importNode.bind(page),
  };
  const window = {
    document,
    location,
    history,
    addEventListener,
    removeEventListener,
    get devicePixelRatio() {
      return globalThis.devicePixelRatio;
    },
    get innerWidth() {
      return root.clientWidth;
    },
    get innerHeight() {
      return root.clientHeight;
    },
    /** @type {(event: Event) => boolean} */
    dispatchEvent: event => target(event.type).dispatchEvent(event),
  };
  /** @type {(path: string, options?: { method?: string; body?: string }) => Promise<Response>} */
  const fetch = async (path, { method = 'GET', body: content = '' } = {}) => {
    const { status, kind, bytes } = await ask(method, String(path), content);
    return new Response(bytes, { status, headers: { 'content-type': kind } });
  };

  // Links stay within the box.
  root.addEventListener('click', event => {
    const to = event.target?.closest?.('a[href^="#/"]')?.getAttribute('href');
    if (!to || hasModifier(event) || event.shiftKey) return;
    event.preventDefault();
    location.hash = to;
  });
  for (const kind of /** @type {const} */ (['keydown', 'keyup', 'keypress'])) {
    root.addEventListener(kind, event => {
      if (!hasModifier(event) && !(event.shiftKey && event.key === 'Enter')) event.stopPropagation();
    });
  }
  // If the focused element is redrawn, keys still go to this box; a page has them from the first picture on.
  let inside = whole;
  /** @type {(event: Event) => void} */
  const notice = event => {
    inside = whole || event.composedPath().includes(host);
  };
  for (const kind of ['focusin', 'pointerdown']) page.addEventListener(kind, notice, true);
  const lost = new MutationObserver(() => {
    if (inside && !shadow.activeElement && page.activeElement === page.body) root.focus({ preventScroll: true });
  });
  lost.observe(body, { childList: true, subtree: true });

  // A narrow box has the layout of a full-width page, scaled down; a box that fills the window is a page.
  function fit() {
    const width = room.clientWidth;
    // the width that CSS rules use
    const size = width >= LARGE ? 20 : whole ? 16 : Math.max(11, Math.min(16, (16 * width) / WIDE));
    const scale = whole ? scaleFor(width, room.clientHeight, false) : 1;
    room.style.setProperty('--size', `${scale * size}px`);
  }
  fit();
  let size = `${room.clientWidth}x${room.clientHeight}`;
  let waiting = 0;
  const watch = new ResizeObserver(() => {
    const now = `${room.clientWidth}x${room.clientHeight}`;
    if (now === size || !room.clientWidth) return;
    size = now;
    fit();
    clearTimeout(waiting);
    waiting = setTimeout(() => events.dispatchEvent(new Event('resize')), 60);
  });
  watch.observe(room);
  const leave = () => {
    for (const kind of ['focusin', 'pointerdown']) page.removeEventListener(kind, notice, true);
    lost.disconnect();
    watch.disconnect();
    clearTimeout(waiting);
    host.remove();
  };
  return { document, window, location, history, addEventListener, removeEventListener, fetch, root, leave };
}

// The box itself; the page's styles use --rem for its sizes.
const BOX = `
:host { display: block; }
.studio-room { container: studio / size; overflow: auto; font-size: var(--size); }
.studio-room:has(> .projector) { font-size: calc(var(--size) * 1.6); }
.studio { --rem: var(--size); font-size: var(--rem); height: 100%; outline: none; color-scheme: light; }
.studio[data-theme="dark"] { color-scheme: dark; }
.studio.projector { --rem: calc(var(--size) * 1.6); }
.studio-body { position: relative; text-align: left; }
`;

// ---- one studio in an element; graph, STYLE, MARKUP and FONT are defined around this module in a bundle. The font of
// formulas belongs to the whole document.
/** @type {(page: Document) => void} */
function faced(page) {
  if ([...page.fonts].some(face => face.family.includes('Studio Math'))) return;
  const bytes = Uint8Array.from(atob(FONT), letter => letter.charCodeAt(0));
  page.fonts.add(new FontFace('Studio Math', bytes.buffer));
}
/** @type {(el: HTMLElement, given: PlaceOptions) => PlaceMade} */
export function mount(el, given) {
  faced(el.ownerDocument);
  const place = makePlace(el, { ...given, style: STYLE, markup: MARKUP });
  graph(place)('main.js'); // draws as soon as it is loaded
  return place;
}
// A studio that fills the window, whose address is that of the document; at: the first address, if it has none.
/** @type {(el: HTMLElement, ask: AskServer, at: string) => PlaceMade} */
export function fill(el, ask, at) {
  const place = mount(el, {
    ask,
    address: location.hash || at,
    height: '100vh',
    whole: true,
    onaddress: to => {
      if (location.hash !== to) history.replaceState(null, '', to);
    },
  });
  addEventListener('hashchange', () => {
    place.location.hash = location.hash;
  });
  return place;
}
