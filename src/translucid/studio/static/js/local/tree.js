// The tree of a beam search: every prefix that was considered, and why it was kept or pruned, as generate/tree.py.
import { top } from './beam.js';
import { SPECIAL } from './tokenizer.js';

const SHOWN = 3; // proposals to show for each beam, at least

export class SearchTree {
  /** @param {SearchSettings} settings @param {LocalTokenizer} tokenizer */
  constructor(settings, tokenizer) {
    this.settings = settings;
    this.tokenizer = tokenizer;
    /** @type {TreeNode[]} */
    this.nodes = [];
    this.rounds = 0;
    this.add(null, -1, 0, 0, '').chosen = true;
    /** @type {number[]} the node in each place of the beam */
    this.places = Array.from({ length: settings.beam_size }, () => 0);
  }
  /** @type {(parent: TreeNode | null, token: number, logProb: number, score: number, piece: string) => TreeNode} */
  add(parent, token, logProb, score, piece) {
    const node = {
      number: this.nodes.length,
      parent: parent?.number ?? null,
      token,
      piece,
      label: piece,
      token_log_prob: logProb,
      score,
      fate: 'followed',
      why: '',
      length: parent ? parent.length + 1 : 0,
      ranked: null,
      place: null,
      chosen: false,
      group: 0,
      pruned: null,
    };
    this.nodes.push(node);
    return node;
  }
  // Add a round of the search.
  /** @type {(round: BeamRound) => void} */
  watch({ before, rows, after, done }) {
    this.rounds++;
    const places = this.places.slice();
    /** @type {Map<string, number>} parent and token -> the place in the beam that they won */
    const winners = new Map();
    after.forEach(({ parent, tokens, score }, place) => {
      if (!before[place].finished && score > -Infinity) winners.set(`${parent} ${tokens.at(-1)}`, place);
    });
    const ended = before.filter(beam => beam.finished).length;
    const bar = winners.size ? Math.min(...[...winners.values()].map(place => after[place].score)) : 0;
    rows.forEach((row, beam) => {
      if (!row) return;
      const parent = this.nodes[this.places[beam]];
      for (const token of this.proposals(
        row,
        [...winners.keys()].map(key => key.split(' ').map(Number)),
        beam,
      )) {
        const [piece] = this.tokenizer.pieces([token]);
        const score = Math.fround(before[beam].score + row.adjusted[token]);
        const node = this.add(parent, token, row.own[token], score, piece);
        const place = winners.get(`${beam} ${token}`);
        if (place !== undefined) {
          places[place] = node.number;
          if (token === SPECIAL.eos) this.rank(node, 'ended', 'ends');
        } else if (score === -Infinity) {
          const [only] = this.tokenizer.pieces([this.settings.begin[this.rounds - 1]]);
          node.fate = 'forbidden';
          node.score = Math.fround(before[beam].score + row.own[token]);
          node.why = `position ${this.rounds - 1} is for ${quoted(only)}`;
        } else {
          node.fate = 'pruned';
          node.pruned = { bar, places: before.length - ended, ended, cost: 0 };
          node.why = below(score, node.pruned);
        }
      }
    });
    this.places = places;
    if (done) this.end(after);
  }
  // The tokens that one beam proposes, best first, and those that are forbidden.
  /** @type {(row: BeamRow, winners: number[][], beam: number) => number[]} */
  proposals({ own, adjusted }, winners, beam) {
    const width = Math.max(this.settings.beam_size, SHOWN);
    const best = top(adjusted, width).filter(token => adjusted[token] > -Infinity);
    const won = winners.filter(([parent]) => parent === beam).map(([, token]) => token);
    const forbidden = top(own, width).filter(token => adjusted[token] === -Infinity && own[token] > -Infinity);
    return [...new Set([...best, ...won, ...forbidden])];
  }
  /** @type {(node: TreeNode, fate: string, why: string) => void} */
  rank(node, fate, why) {
    const { alpha } = this.settings;
    const length = Math.max(node.length, 1);
    node.fate = fate;
    node.ranked = node.score / length ** alpha;
    const divided = alpha ? `${node.score.toFixed(2)} / ${length}^${alpha} = ` : '';
    node.why = `${why}: ${divided}${node.ranked.toFixed(2)}`;
  }
  // Mark the unfinished prefixes and the returned texts.
  /** @type {(beams: Beam[]) => void} */
  end(beams) {
    const { alpha, most, n_best } = this.settings;
    const all = beams
      .map(({ score, finished }, place) => ({ node: this.nodes[this.places[place]], score, finished }))
      .filter(({ score }) => score > -Infinity)
      .map(each => ({ ...each, ranking: Math.fround(each.score / each.node.length ** alpha) }))
      .sort((a, b) => b.ranking - a.ranking);
    const reached = all.filter(({ finished }) => finished)[n_best - 1];
    for (const { node, finished } of all)
      if (!finished && this.rounds >= most) this.rank(node, 'cut', `reached the limit of ${most} tokens`);
      else if (!finished) {
        this.rank(node, 'stopped', '');
        const bound = (node.score / most ** alpha).toFixed(2);
        node.why = `could reach at most ${bound}, but a finished text already has ${reached.ranking.toFixed(2)}`;
      }
    all.slice(0, n_best).forEach(({ node }, i) => {
      node.place = i + 1;
    });
    let at = all.length ? all[0].node : null;
    while (at) {
      at.chosen = true;
      at = at.parent === null ? null : this.nodes[at.parent];
    }
  }
}
/** @type {(score: number, by: NonNullable<TreeNode['pruned']>) => string} */
function below(score, { bar, places, ended }) {
  const last = places > 1 ? `the last of ${places} places` : 'the only place';
  const texts = ended ? ` (${ended} ${ended > 1 ? 'texts have' : 'text has'} ended)` : '';
  if (score >= bar) return `${score.toFixed(2)} ties with ${last}${texts}`;
  const digits = [2, 3, 4, 6, 9].find(d => score.toFixed(d) !== bar.toFixed(d)) ?? 12;
  return `${score.toFixed(digits)} is below ${bar.toFixed(digits)}, ${last}${texts}`;
}
// As repr of Python.
/** @type {(text: string) => string} */
export const quoted = text =>
  text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`;
