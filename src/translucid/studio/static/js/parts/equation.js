// A formula of the catalogue as it stands in a book: symbol = formula. And a number with all the digits it has.
import { h, formula } from '../dom.js';

export function equation(entry) {
  // of the catalogue: { symbol, formula }
  if (!entry?.formula) return null;
  return h(
    'div',
    { class: 'equation' },
    formula(entry.symbol, false),
    h('span', { class: 'is' }, '='),
    formula(entry.formula, false),
  );
}
// The fewest digits that mean the same 32-bit number again.
export function exact(value) {
  const given = Number(value);
  if (!Number.isFinite(given)) return Number.isNaN(given) ? 'not a number' : given < 0 || value === '-inf' ? '−∞' : '∞';
  for (let digits = 1; digits <= 9; digits++) {
    const told = given.toPrecision(digits);
    if (Math.fround(Number(told)) === Math.fround(given)) return plain(told);
  }
  return plain(String(given));
}
const plain = told => {
  const [digits, power] = told.split('e');
  if (power === undefined) return digits.replace('-', '−');
  const value = Number(told);
  return Math.abs(value) >= 1e-4
    ? String(value).replace('-', '−')
    : `${digits.replace('-', '−')}e${power.replace('-', '−').replace('+', '')}`;
};
