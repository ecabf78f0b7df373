import { h } from '../dom.js';
export async function lesson(stage) { stage.append(h('p', null, 'lesson')); }
