import { h } from '../dom.js';
export async function attention(stage) { stage.append(h('p', null, 'attention')); }
