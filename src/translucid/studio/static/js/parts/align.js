// Two lists of words side by side: which words stand under one another, by the longest run that both share.
export function align(one, two) {
  // -> [[place in one or null, place in two or null], ...]
  const best = Array.from({ length: one.length + 1 }, () => new Uint32Array(two.length + 1));
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = two.length - 1; j >= 0; j--) {
      best[i][j] = one[i] === two[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  const pairs = [];
  let i = 0;
  let j = 0;
  let left = [];
  let right = [];
  const meet = () => {
    // words that differ stand under one another as far as they go
    for (let k = 0; k < Math.max(left.length, right.length); k++) pairs.push([left[k] ?? null, right[k] ?? null]);
    left = [];
    right = [];
  };
  while (i < one.length || j < two.length) {
    if (i < one.length && j < two.length && one[i] === two[j]) {
      meet();
      pairs.push([i++, j++]);
    } else if (j >= two.length || (i < one.length && best[i + 1][j] >= best[i][j + 1])) left.push(i++);
    else right.push(j++);
  }
  meet();
  return pairs;
}
// The places of `two` that have no like in `one`.
export function unlike(one, two) {
  return new Set(
    align(one, two)
      .filter(([i, j]) => j !== null && (i === null || one[i] !== two[j]))
      .map(([, j]) => j),
  );
}
// Words as a sentence: no blank before a sign, none inside a word (a piece that goes on with a word begins with a dot).
export const glued = word => /^[.,!?;:)]/.test(word) || /^·./.test(word);
export const bare = word => word.replace(/^·(?=.)/, '');
