// The entry for anywidget: requests go through the widget's channel to Python; answers come back as buffers.
import { mount } from './embedded.js';

// Jupyter, VS Code and marimo each have their own way to indicate a dark theme.
function dark() {
  const { body, documentElement: root } = document;
  return (
    body.dataset.jpThemeLight === 'false' ||
    root.dataset.jpThemeLight === 'false' ||
    body.matches('.vscode-dark, .dark, .dark-theme') ||
    root.matches('.dark, [data-theme="dark"]')
  );
}
/** @type {(view: DataView<ArrayBuffer>) => ArrayBuffer} */
const whole = ({ buffer, byteOffset, byteLength }) => buffer.slice(byteOffset, byteOffset + byteLength);

/** @type {(given: { model: WidgetModel; el: HTMLElement }) => () => void} */
export function render({ model, el }) {
  const own = crypto.randomUUID();
  const waiting = new Map(); // one widget may be shown twice
  const moved = { bytes: 0, asked: 0 };
  let last = 0;
  /** @type {(message: WidgetReply, buffers: DataView<ArrayBuffer>[]) => void} */
  const heard = (message, buffers) => {
    if (message.of !== own || !waiting.has(message.id)) return;
    const bytes = whole(buffers[0]);
    moved.bytes += bytes.byteLength;
    moved.asked += 1;
    waiting.get(message.id)({ status: message.status, kind: message.kind, bytes });
    waiting.delete(message.id);
    silent.remove();
  };
  /** @type {AskServer} */
  const ask = (method, path, body) =>
    new Promise(resolve => {
      waiting.set(++last, resolve);
      model.send({ of: own, id: last, method, path, body });
    });
  const silent = document.createElement('p');
  silent.textContent =
    'The studio is waiting for Python. If this stays, run the cell again: the numbers come from the running model.';
  el.append(silent);
  model.on('msg:custom', heard);
  const place = mount(el, {
    ask,
    address: model.get('address'),
    around: dark() ? 'dark' : 'light',
    height: `${model.get('height')}px`,
    onaddress: to => {
      if (model.get('address') !== to) {
        model.set('address', to);
        model.save_changes();
      }
    },
  });
  const follow = () => {
    place.location.hash = model.get('address');
  };
  model.on('change:address', follow);
  place.root.moved = moved; // for the curious, and for the tests
  return () => {
    model.off('msg:custom', heard);
    model.off('change:address', follow);
    place.leave();
  };
}
