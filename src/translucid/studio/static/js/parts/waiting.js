// After a second of waiting: what is computed and for how long, with a button that cancels it.
import { h } from '../dom.js';
import { cancelAll } from '../api.js';

const all = new Set(); // messages of what is computed, the oldest first
let end = () => {};
// Returns what to call when it is over.
export function waiting(message) {
  const one = { message };
  if (!all.size) end = began();
  all.add(one);
  return () => {
    if (all.delete(one) && !all.size) end();
  };
}
function began() {
  const since = Date.now();
  const says = h('span');
  const time = h('span.n', { 'aria-hidden': 'true' });
  const box = h('div.waiting', { role: 'status' }, says, time, h('button.edit', { onclick: cancelAll }, 'Cancel'));
  const timer = setInterval(() => {
    const [{ message }] = all;
    if (says.textContent !== message) says.textContent = message;
    time.textContent = `${Math.round((Date.now() - since) / 1000)} s`;
    if (!box.isConnected) document.body.append(box);
  }, 1000);
  return () => {
    clearInterval(timer);
    box.remove();
  };
}
