// A task of a lesson: a button that asks whether what the page shows is what was asked for, and what was said to that.
import { h } from './dom.js';
import * as api from './api.js';

const done = new Set(); // lesson.stop, of this session
export const doneIn = id => [...done].filter(key => key.startsWith(`${id}.`)).length;

// say(pieces) -> what to show of a text of a lesson
export function task(run, id, place, say) {
  const key = `${id}.${place}`;
  const told = h('span', { class: 'verdict', role: 'status', 'aria-live': 'polite' });
  const box = h('p', { class: `check${done.has(key) ? ' right' : ''}` });
  const button = h('button', { class: 'edit', onclick: check }, 'Check');
  async function check() {
    const found = await api.check(run.run, id, place, location.hash);
    if (found.done) done.add(key);
    box.classList.toggle('right', found.done);
    box.classList.toggle('wrong', !found.done);
    told.replaceChildren(found.done ? '✓ ' : '✗ ', ...say(found.say));
  }
  if (done.has(key)) told.append('✓ done');
  box.append(button, told);
  return box;
}
