import { h } from '../dom.js';
export async function whatif(stage) { stage.append(h('p', null, 'whatif')); }
