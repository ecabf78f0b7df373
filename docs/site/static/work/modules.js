// @ts-nocheck: values have Python's dynamic types.
// The modules, functions and configurations of torch and the package that the worked solutions use.
import { Tokenizer as WordTokenizer } from '../../../../src/translucid/studio/static/js/local/tokenizer.js';
import {
  B,
  Ellipsis,
  iter,
  method,
  named,
  parsed,
  tuple,
} from '../../../../src/translucid/studio/static/js/python/python.js';
import { isFloat, Tensor, torch } from '../../../../src/translucid/studio/static/js/python/torch.js';

const linear = (x, weight, bias = null) => {
  const out = x.sizes.length === 1 ? x.unsqueeze(0).__matmul__(weight.mT).squeeze(0) : x.__matmul__(weight.mT);
  return bias === null ? out : out.__add__(bias);
};
export const F = {
  linear,
  gelu(x, ...args) {
    if (parsed(args)[1].approximate === 'tanh') {
      return x.__mul__(0.5).__mul__(
        x
          .__add__(x.__pow__(3).__mul__(0.044715))
          .__mul__(Math.sqrt(2 / Math.PI))
          .tanh()
          .__add__(1),
      );
    }
    return x.__mul__(x.__mul__(Math.SQRT1_2).erf().__add__(1).__mul__(0.5));
  },
  silu: x => x.__mul__(x.sigmoid()),
  dropout: x => x,
  mse_loss(a, b, ...args) {
    const squares = a.__sub__(b).square();
    return parsed(args)[1].reduction === 'sum' ? squares.sum() : squares.mean();
  },
  cross_entropy: (logits, target) => {
    const picked = logits.log_softmax(-1).reshape(-1, logits.sizes.at(-1)).gather(1, target.reshape(-1, 1));
    return picked.mean().__neg__();
  },
  one_hot: (ids, size) => {
    const out = torch.zeros(...ids.sizes, size, named({ dtype: 'int64' }));
    ids.store.forEach((id, i) => {
      out.store[i * size + id] = 1;
    });
    return out;
  },
  embedding: (ids, table) => table.index_select(0, ids.flatten()).reshape(...ids.sizes, table.sizes[1]),
  layer_norm: (x, _shape, gain, shift, eps) => {
    const centred = x.__sub__(x.mean(named({ dim: -1, keepdim: true })));
    const scaled = centred
      .__truediv__(
        centred
          .square()
          .mean(named({ dim: -1, keepdim: true }))
          .__add__(eps)
          .sqrt(),
      )
      .__mul__(gain);
    return shift === null ? scaled : scaled.__add__(shift);
  },
};
torch.nn = null;

class Module {
  static $class = true;
  __init__() {
    this.training = true;
  }
  /** The submodules and parameters by name, in the order in which they were assigned. */
  children_ = () => Object.entries(this).filter(([, value]) => value instanceof Module);
  own_ = () => Object.entries(this).filter(([, value]) => value instanceof Tensor && value.$parameter);
  *parameters() {
    for (const [, parameter] of method(this, 'named_parameters')) yield parameter;
  }
  *named_parameters(prefix = '') {
    for (const [name, parameter] of this.own_()) yield tuple([prefix + name, parameter]);
    for (const [name, child] of this.children_()) yield* child.named_parameters(`${prefix}${name}.`);
  }
  *modules() {
    for (const [, module] of this.named_modules()) yield module;
  }
  *named_modules(prefix = '') {
    yield tuple([prefix.replace(/\.$/, ''), this]);
    for (const [name, child] of this.children_()) yield* child.named_modules(`${prefix}${name}.`);
  }
  get_parameter(path) {
    return this.get_submodule(path);
  }
  get_submodule(path) {
    return path.split('.').reduce((module, name) => module[name], this);
  }
  double() {
    for (const module of this.modules()) {
      for (const [name, value] of Object.entries(module)) {
        if (value instanceof Tensor && isFloat(value.dtype)) {
          value.store = Float64Array.from(value.store);
          value.dtype = 'float64';
          module[name] = value;
        }
      }
    }
    return this;
  }
  train(on = true) {
    for (const module of this.modules()) module.training = on;
    return this;
  }
  eval() {
    return this.train(false);
  }
  to() {
    return this;
  }
  requires_grad_(on = true) {
    for (const parameter of this.parameters()) parameter.requires_grad = on;
    return this;
  }
  zero_grad() {
    for (const parameter of this.parameters()) parameter.grad = null;
  }
  register_buffer(name, value) {
    this[name] = value;
  }
  $deepcopy() {
    const copy = Object.create(Object.getPrototypeOf(this));
    for (const [name, value] of Object.entries(this)) {
      if (value instanceof Module) copy[name] = value.$deepcopy();
      else if (value instanceof Tensor)
        copy[name] = Object.assign(value.detach().clone().requires_grad_(value.requires_grad), {
          $parameter: value.$parameter,
        });
      else if (!Object.hasOwn(Module.fields, name)) copy[name] = value;
    }
    Object.assign(copy, new Module(), copy);
    return copy;
  }
  __call__(...args) {
    return method(this, 'forward', ...args);
  }
}
Module.fields = { children_: 1, own_: 1 };
const Parameter = (value, ...args) =>
  Object.assign(
    value
      .detach()
      .clone()
      .requires_grad_(parsed(args)[1].requires_grad ?? true),
    { $parameter: true },
  );
Parameter.$holds = value => value instanceof Tensor && value.$parameter === true;
class Linear extends Module {
  __init__(inputs, outputs, ...args) {
    super.__init__();
    this.in_features = inputs;
    this.out_features = outputs;
    const { bias = true, dtype = 'float32' } = parsed(args)[1];
    this.weight = Parameter(torch.zeros(outputs, inputs, named({ dtype })));
    this.bias = bias ? Parameter(torch.zeros(outputs, named({ dtype }))) : null;
  }
  forward(x) {
    return linear(x, this.weight, this.bias);
  }
}
class Embedding extends Module {
  __init__(rows, width) {
    super.__init__();
    this.num_embeddings = rows;
    this.embedding_dim = width;
    this.weight = Parameter(torch.zeros(rows, width));
  }
  forward(ids) {
    return F.embedding(ids, this.weight);
  }
}
class ModuleList extends Module {
  __init__(modules = []) {
    super.__init__();
    [...iter(modules)].forEach((module, i) => {
      this[i] = module;
    });
  }
  *[Symbol.iterator]() {
    for (let i = 0; this[i]; i++) yield this[i];
  }
  __len__() {
    return [...this].length;
  }
  __getitem__(at) {
    return [...this].at(at);
  }
}
class Identity extends Module {
  __init__() {
    super.__init__();
  }
  forward(x) {
    return x;
  }
}
const BLOCKS = { rnn: 1, lstm: 4, gru: 3 };
const recurrent = kind => {
  class Recurrent extends Module {
    __init__(inputs, hidden, layers = 1) {
      super.__init__();
      for (let layer = 0; layer < layers; layer++) {
        const width = layer ? hidden : inputs;
        this[`weight_ih_l${layer}`] = Parameter(torch.zeros(BLOCKS[kind] * hidden, width));
        this[`weight_hh_l${layer}`] = Parameter(torch.zeros(BLOCKS[kind] * hidden, hidden));
        this[`bias_ih_l${layer}`] = Parameter(torch.zeros(BLOCKS[kind] * hidden));
        this[`bias_hh_l${layer}`] = Parameter(torch.zeros(BLOCKS[kind] * hidden));
      }
    }
  }
  return Recurrent;
};
const kept = value => value;
export const nn = {
  Module,
  Parameter,
  Linear,
  Embedding,
  ModuleList,
  Identity,
  Dropout: Identity,
  RNN: recurrent('rnn'),
  LSTM: recurrent('lstm'),
  GRU: recurrent('gru'),
  functional: F,
  init: {
    zeros_: kept,
    xavier_uniform_: kept,
    kaiming_uniform_: kept,
    calculate_gain: () => 1,
  },
  utils: {
    clip_grad_norm_(parameters, most) {
      const list = parameters instanceof Tensor ? [parameters] : [...iter(parameters)];
      const size = Math.sqrt(list.reduce((total, p) => total + p.grad.store.reduce((a, v) => a + v * v, 0), 0));
      const factor = Math.min(1, most / (size + 1e-6));
      for (const parameter of list) parameter.grad.mul_(factor);
      return new Tensor(Float64Array.of(size), []);
    },
    clip_grad_value_(parameters, most) {
      for (const parameter of parameters instanceof Tensor ? [parameters] : iter(parameters))
        parameter.grad.clamp_(-most, most);
    },
  },
};
torch.nn = nn;
torch.Module = Module;

// ---- configurations: defaults, and the checks of several keys

class Config {
  static $class = true;
  __init__(...args) {
    const [, byName] = parsed(args);
    const { $fields: fields, $defaults: defaults } = this.constructor;
    for (const [name] of fields) this[name] = name in byName ? byName[name] : defaults[name];
    const found = new Set();
    for (let made = Object.getPrototypeOf(this); made; made = Object.getPrototypeOf(made)) {
      for (const name of Object.getOwnPropertyNames(made)) {
        const check = Object.getOwnPropertyDescriptor(made, name).value;
        if (check?.$check && !found.has(name)) {
          found.add(name);
          check(this);
        }
      }
    }
  }
}
export const config = {
  Config,
  key: value => (value === Ellipsis ? null : value),
  model_validator: () => check => Object.assign(check, { $check: true }),
  field_validator: () => kept,
  PositiveInt: B.int,
};

// ---- tokens, and numpy

/** The words of texts as a vocabulary: the most frequent first. */
export const Tokenizer = {
  train(_kind, texts) {
    const special = ['<pad>', '<s>', '</s>', '<unk>'];
    const file = all => ({
      model: { vocab: Object.fromEntries([...special, ...all].map((word, id) => [word, id])) },
    });
    const meta = { kind: 'word', fingerprint: '' };
    const counts = new Map();
    const [text] = texts;
    for (const { from, to } of new WordTokenizer(file([]), meta).tokens(text)) {
      const found = text.slice(from, to);
      const bare = found.trim();
      const word = bare === found && from ? found : `▁${bare}`;
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    const words = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(entry => entry[0]);
    const tokenizer = new WordTokenizer(file(words), meta);
    return {
      __len__: () => tokenizer.size,
      encode: sentence => tokenizer.encode(sentence),
      pieces: ids => tokenizer.pieces([...iter(ids)]),
      tokens: sentence => tokenizer.pieces(tokenizer.encode(sentence)),
    };
  },
};

/** The nodes and weights of Gauss's rule: the roots of a Legendre polynomial, by Newton's method. */
function leggauss(count) {
  const nodes = Array.from({ length: count }, (_, i) => {
    let x = Math.cos((Math.PI * (count - i - 0.25)) / (count + 0.5));
    let slope = 0;
    for (let round = 0; round < 20; round++) {
      let [before, value] = [1, x];
      for (let n = 2; n <= count; n++) [before, value] = [value, ((2 * n - 1) * x * value - (n - 1) * before) / n];
      slope = (count * (x * value - before)) / (x * x - 1);
      x -= value / slope;
    }
    return [x, 2 / ((1 - x * x) * slope * slope)];
  });
  const tensor = at =>
    new Tensor(
      Float64Array.from(nodes, node => node[at]),
      [count],
      'float64',
    );
  return tuple([tensor(0), tensor(1)]);
}
export const numpy = { polynomial: { legendre: { leggauss } } };
