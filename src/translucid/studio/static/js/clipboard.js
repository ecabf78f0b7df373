// What is copied is told, in the read-out; where the browser keeps its clipboard shut, that is told instead.
import { notice } from './readout.js';

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    notice(`copied ${what ?? text}`);
  } catch {
    notice(`the browser does not let this page copy; it would be: ${text}`);
  }
}
