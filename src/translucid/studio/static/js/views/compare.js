import { h } from '../dom.js';
export async function compare(stage) { stage.append(h('p', null, 'compare')); }
