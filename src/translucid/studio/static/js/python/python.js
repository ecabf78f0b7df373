// @ts-nocheck: values have Python's dynamic types.
// What Python code translated by studio/javascript/translation.py needs of Python itself: calls with named arguments,
// classes, operators, text formatting, and the functions of its standard library that lessons and worked solutions use.
//
// int and float are numbers, str is a string, None is null. A list is an array; tuples, dicts and sets have classes.

// ---- values

export class Tuple extends Array {}
export const tuple = items => {
  const made = new Tuple();
  for (const item of items) made.push(item);
  return made;
};
export const Ellipsis = Symbol('...');

const key = value => (value instanceof Tuple ? `(${[...value].map(v => `${typeof v}:${key(v)}`).join()})` : value);

export class Dict {
  #entries = new Map();
  constructor(entries = []) {
    for (const [k, v] of entries) this.put(k, v);
  }
  put(k, v) {
    this.#entries.set(key(k), [this.#entries.get(key(k))?.[0] ?? k, v]);
  }
  has = k => this.#entries.has(key(k));
  read = k => this.#entries.get(key(k))?.[1];
  remove = k => this.#entries.delete(key(k));
  pairs = () => [...this.#entries.values()];
  get size() {
    return this.#entries.size;
  }
  *[Symbol.iterator]() {
    for (const [k] of this.#entries.values()) yield k;
  }
}

export class PySet {
  #members = new Map();
  constructor(members = []) {
    for (const member of members) this.put(member);
  }
  put = member => this.#members.has(key(member)) || this.#members.set(key(member), member);
  has = member => this.#members.has(key(member));
  remove = member => this.#members.delete(key(member));
  get size() {
    return this.#members.size;
  }
  [Symbol.iterator]() {
    return this.#members.values();
  }
}

class Slice {
  constructor(start, stop, step) {
    Object.assign(this, { start, stop, step });
  }
  /** The indices of this slice in a sequence of this length. */
  indices(length) {
    const step = this.step ?? 1;
    const clip = (at, least, most) => Math.min(Math.max(at < 0 ? at + length : at, least), most);
    const start = step > 0 ? clip(this.start ?? 0, 0, length) : clip(this.start ?? length - 1, -1, length - 1);
    const stop =
      step > 0 ? clip(this.stop ?? length, 0, length) : this.stop === null ? -1 : clip(this.stop, -1, length);
    const out = [];
    for (let i = start; step > 0 ? i < stop : i > stop; i += step) out.push(i);
    return out;
  }
}
export const slice = (start, stop, step) => new Slice(start, stop, step);
export const isSlice = value => value instanceof Slice;

export const dict = entries => new Dict(entries);
export const pairs = value =>
  value instanceof Dict ? value.pairs() : value[Symbol.iterator] ? [...value] : Object.entries(value);
export const iter = value => {
  if (value?.[Symbol.iterator]) return value;
  if (value?.__iter__) return method(value, '__iter__');
  throw new Raised('TypeError', `${repr(value)} is not iterable`);
};
export const len = value => {
  if (typeof value === 'string' || Array.isArray(value)) return value.length;
  if (value instanceof Dict || value instanceof PySet) return value.size;
  return method(value, '__len__');
};
export const truth = value => {
  if (typeof value !== 'object' || value === null) return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Dict || value instanceof PySet) return value.size > 0;
  if (value.__bool__) return method(value, '__bool__');
  return value.__len__ ? method(value, '__len__') > 0 : true;
};
export const andThen = (value, other) => (truth(value) ? other() : value);
export const orElse = (value, other) => (truth(value) ? value : other());

// ---- errors

export class Exception extends Error {
  static $class = true;
  __init__(...args) {
    const [values] = parsed(args);
    this.args = tuple(values);
    if (!Object.hasOwn(this, 'message')) this.message = values.length ? str(values[0]) : '';
  }
}
class Raised extends Exception {
  constructor(kind, message) {
    super(message);
    Object.setPrototypeOf(this, B[kind].prototype);
    this.args = tuple([message]);
  }
}
export const raise = (kind, message) => {
  throw new Raised(kind, message);
};
export const caught = thrown => thrown;

// ---- functions and classes

class Named {
  constructor(values) {
    this.values = values;
  }
}
export const named = values => new Named(values);
export const keywords = value => Object.fromEntries(pairs(value));
/** The positional and the named arguments of a function written in JavaScript. */
export const parsed = args => {
  const last = args.at(-1);
  return last instanceof Named ? [args.slice(0, -1), last.values] : [args, {}];
};

/** A Python function. signature: its names, or [positional, by name only, defaults, has *rest, has **others]. */
export function def(name, signature, body) {
  const names = typeof signature === 'string' && signature.split(' ').filter(Boolean);
  const [positional, only, defaults, rest, others] = names ? [names, [], {}, false, false] : signature;
  const plain = !only.length && !rest && !others;
  const made = (...args) => {
    if (plain && args.length === positional.length && !(args.at(-1) instanceof Named)) return body(...args);
    const [given, byName] = parsed(args);
    const left = new Map(Object.entries(byName));
    const take = parameter => {
      if (left.has(parameter)) {
        const value = left.get(parameter);
        left.delete(parameter);
        return value;
      }
      return parameter in defaults ? defaults[parameter] : raise('TypeError', `${name}: ${parameter} is missing`);
    };
    const values = positional.map((parameter, i) => (i < given.length ? given[i] : take(parameter)));
    if (given.length > positional.length && !rest) raise('TypeError', `${name}: too many arguments`);
    values.push(...only.map(take));
    if (rest) values.push(tuple(given.slice(positional.length)));
    if (others) values.push(dict([...left]));
    else if (left.size) raise('TypeError', `${name}: unexpected ${[...left.keys()].join(', ')}`);
    return body(...values);
  };
  made.$python = true;
  made.__name__ = name;
  return made;
}

class Obj {
  static $class = true;
  __init__() {}
}

/** A value of a class derived from float or str. Operators, comparisons and methods use the float or the text. */
class Derived extends Obj {
  valueOf() {
    return this.value;
  }
  __bool__ = () => truth(this.value);
  __float__ = () => number(this.value);
  __len__ = () => len(this.value);
  __iter__ = () => iter(this.value);
  __contains__ = value => isIn(bare(value), this.value);
  __getitem__ = index => get(this.value, index);
}
class DerivedFloat extends Derived {}
class DerivedText extends Derived {}
const bare = value => (value instanceof Derived ? value.value : value);

class Field {
  constructor(values) {
    Object.assign(this, values);
  }
}

export function makeClass(name, bases, isData, fields, values, methods) {
  const Base = bases[0] === B.float ? DerivedFloat : bases[0] === B.str ? DerivedText : (bases[0] ?? Obj);
  const made = { [name]: class extends Base {} }[name];
  for (const other of bases.slice(1)) {
    for (const own of Object.getOwnPropertyNames(other.prototype)) {
      if (!(own in made.prototype))
        Object.defineProperty(made.prototype, own, Object.getOwnPropertyDescriptor(other.prototype, own));
    }
  }
  made.__name__ = name;
  made.$bases = bases;
  const own = fields.map(([field, value]) => [field, value?.() ?? null]);
  const inherited = (Base.$fields ?? []).filter(([field]) => !own.some(([other]) => other === field));
  made.$fields = [...inherited, ...own];
  for (const [field, value] of own) {
    if (value !== null && !(value instanceof Field)) made.prototype[field] = value;
    else if (fields.find(f => f[0] === field)[1] && value === null) made.prototype[field] = null;
  }
  made.$defaults = {
    ...Base.$defaults,
    ...Object.fromEntries(fields.filter(([, v]) => v).map(([f]) => [f, own.find(o => o[0] === f)[1]])),
  };
  if (isData) made.prototype.__init__ = fillFields;
  if (isData) made.prototype.$data = true;
  if (isData === 'tuple') {
    made.prototype[Symbol.iterator] = function () {
      return made.$fields.map(([field]) => this[field])[Symbol.iterator]();
    };
  }
  for (const [attribute, value] of values) made.prototype[attribute] = value();
  for (const [attribute, kind, body] of methods) {
    if (kind === 'property' || kind === 'cached_property') {
      const read =
        kind === 'property'
          ? function () {
              return body(this);
            }
          : function () {
              const found = body(this);
              Object.defineProperty(this, attribute, { value: found, writable: true, configurable: true });
              return found;
            };
      Object.defineProperty(made.prototype, attribute, { get: read, configurable: true });
    } else if (kind === 'staticmethod') made.prototype[attribute] = (...args) => body(...args);
    else if (kind === 'classmethod') {
      made.prototype[attribute] = function (...args) {
        return body(this.constructor, ...args);
      };
      made[attribute] = function (...args) {
        return body(this, ...args);
      };
    } else made.prototype[attribute] = body;
  }
  return made;
}

function fillFields(...args) {
  const [given, byName] = parsed(args);
  const { $fields: fields, $defaults: defaults } = this.constructor;
  let at = 0;
  for (const [name] of fields) {
    const value = defaults[name];
    if (value instanceof Field && value.init === false) {
      this[name] = value.fresh();
    } else if (at < given.length) this[name] = given[at++];
    else if (name in byName) this[name] = byName[name];
    else if (value instanceof Field) this[name] = value.fresh();
    else if (name in defaults) this[name] = value;
    else raise('TypeError', `${this.constructor.__name__}: ${name} is missing`);
  }
  for (const name of Object.keys(byName)) {
    if (!fields.some(field => field[0] === name))
      raise('TypeError', `${this.constructor.__name__}: unexpected ${name}`);
  }
  if (this.__post_init__) method(this, '__post_init__');
}

const isClass = value => typeof value === 'function' && value.$class === true;

export function call(f, ...args) {
  if (isClass(f)) {
    const made = new f();
    if (made instanceof Derived) made.value = (made instanceof DerivedFloat ? B.float : B.str)(bare(args[0]));
    method(made, '__init__', ...args);
    return made;
  }
  if (typeof f === 'function') return f(...args);
  if (f === undefined || f === null) return raise('TypeError', `${repr(f)} is not callable`);
  return method(f, '__call__', ...args);
}

const tableOf = value => {
  if (typeof value === 'string' || value instanceof DerivedText) return textMethods;
  if (Array.isArray(value)) return listMethods;
  if (value instanceof Dict) return dictMethods;
  return value instanceof PySet ? setMethods : typeof value === 'number' ? numberMethods : null;
};

export function method(object, name, ...args) {
  if (typeof object === 'object' && object !== null && object[name]?.$python && !Object.hasOwn(object, name)) {
    return object[name](object, ...args); // the usual case
  }
  const table = tableOf(object);
  if (table?.[name] && object instanceof Derived) return table[name](object.value, ...args);
  if (table && !(object instanceof Derived)) {
    if (!table[name]) raise('AttributeError', `${repr(object)} has no ${name}`);
    return table[name](object, ...args);
  }
  const found = object[name] ?? (isClass(object) ? object.prototype[name] : undefined);
  if (found === undefined)
    raise('AttributeError', `${object?.constructor?.name} ${object?.__name__ ?? ''} has no ${name}`);
  if (typeof found !== 'function' || isClass(found)) return call(found, ...args);
  if (found.$python) return Object.hasOwn(object, name) || isClass(object) ? found(...args) : found(object, ...args);
  return found.apply(object, args);
}

export function attr(object, name) {
  if (typeof object === 'object' && object !== null) {
    const value = object[name];
    if (value !== undefined && typeof value !== 'function') return value; // the usual case
  }
  const table = tableOf(object);
  if (table) {
    if (!table[name]) raise('AttributeError', `${repr(object)} has no ${name}`);
    return (...args) => table[name](object, ...args);
  }
  if (object === B.str && textMethods[name]) return textMethods[name];
  if (name === '__class__') return object.constructor;
  const found = object?.[name] ?? (isClass(object) ? object.prototype[name] : object?.[name]);
  if (found === undefined) raise('AttributeError', `${object?.constructor?.name ?? object} has no ${name}`);
  if (typeof found === 'function' && !isClass(object) && !isClass(found) && !Object.hasOwn(object, name)) {
    return (...args) => (found.$python ? found(object, ...args) : found.apply(object, args));
  }
  return found;
}

/** A method of the class above: `super().name(...)`. */
export function above(owner, self, name, ...args) {
  const found = Object.getPrototypeOf(owner.prototype)[name];
  return found.$python ? found(self, ...args) : found.apply(self, args);
}

export const enter = context => method(context, '__enter__');
export const leave = (context, thrown) => {
  const silent = method(context, '__exit__', thrown?.constructor ?? null, thrown, null);
  if (thrown && !truth(silent)) throw thrown;
};

export function isinstance(value, kind) {
  if (Array.isArray(kind)) return kind.some(one => isinstance(value, one));
  if (kind instanceof Union) return kind.kinds.some(one => isinstance(value, one));
  if (kind.$holds) return kind.$holds(value);
  if (value === null || value === undefined) return false;
  if (value instanceof kind) return true;
  for (let made = value.constructor; made && made !== Object; made = Object.getPrototypeOf(made)) {
    if (made.$bases?.some(base => base === kind || base.prototype instanceof kind)) return true;
  }
  return false;
}

class Union {
  constructor(...kinds) {
    this.kinds = kinds;
  }
}

// ---- operators

const isNumber = value => typeof value === 'number' || typeof value === 'boolean';
const isKind = value => typeof value === 'function' || value instanceof Union;

function operate(name, a, b) {
  if (a !== null && typeof a === 'object' && a[`__${name}__`]) return method(a, `__${name}__`, b);
  if (b !== null && typeof b === 'object' && b[`__r${name}__`]) return method(b, `__r${name}__`, a);
  return raise('TypeError', `${repr(a)} ${name} ${repr(b)} is not defined`);
}
for (const name of ['add', 'sub', 'mul', 'truediv', 'floordiv', 'mod', 'pow']) {
  const act = (a, b) => OPERATORS[name === 'truediv' ? 'div' : name](bare(a), bare(b));
  Derived.prototype[`__${name}__`] = function (other) {
    return act(this, other);
  };
  Derived.prototype[`__r${name}__`] = function (other) {
    return act(other, this);
  };
}
const repeated = (items, count) => {
  const out = [];
  for (let i = 0; i < count; i++) out.push(...items);
  return items instanceof Tuple ? tuple(out) : out;
};

export function add(a, b) {
  if (isNumber(a) && isNumber(b)) return a + b;
  if (typeof a === 'string' && typeof b === 'string') return a + b;
  if (Array.isArray(a) && Array.isArray(b)) return a instanceof Tuple ? tuple([...a, ...b]) : [...a, ...b];
  return operate('add', a, b);
}
export function sub(a, b) {
  if (isNumber(a) && isNumber(b)) return a - b;
  if (a instanceof PySet) return new PySet([...a].filter(member => !b.has(member)));
  return operate('sub', a, b);
}
export function mul(a, b) {
  if (isNumber(a) && isNumber(b)) return a * b;
  if (typeof a === 'string' && isNumber(b)) return a.repeat(Math.max(0, Number(b)));
  if (typeof b === 'string' && isNumber(a)) return b.repeat(Math.max(0, Number(a)));
  if (Array.isArray(a) && isNumber(b)) return repeated(a, b);
  if (Array.isArray(b) && isNumber(a)) return repeated(b, a);
  return operate('mul', a, b);
}
export function div(a, b) {
  if (!isNumber(a) || !isNumber(b)) return operate('truediv', a, b);
  return Number(b) === 0 ? raise('ZeroDivisionError', 'division by zero') : a / b;
}
export const floordiv = (a, b) => {
  if (!isNumber(a) || !isNumber(b)) return operate('floordiv', a, b);
  return Number(b) === 0 ? raise('ZeroDivisionError', 'division by zero') : Math.floor(a / b);
};
export const mod = (a, b) => (isNumber(a) && isNumber(b) ? a - b * Math.floor(a / b) : operate('mod', a, b));
export const pow = (a, b) => (isNumber(a) && isNumber(b) ? a ** b : operate('pow', a, b));
export const matmul = (a, b) => operate('matmul', a, b);
export const neg = a => (isNumber(a) ? -a : method(a, '__neg__'));
export const pos = a => a;
export const invert = a => (isNumber(a) ? ~a : method(a, '__invert__'));
export function or(a, b) {
  if (a instanceof Dict) return new Dict([...a.pairs(), ...pairs(b)]);
  if (a instanceof PySet) return new PySet([...a, ...iter(b)]);
  if (isKind(a) || isKind(b)) return new Union(a ?? B.NoneType, b ?? B.NoneType);
  if (typeof a === 'boolean') return a || b;
  return typeof a === 'number' ? a | b : operate('or', a, b);
}
export function and(a, b) {
  if (a instanceof PySet) return new PySet([...a].filter(member => isIn(member, b)));
  if (typeof a === 'boolean') return a && b;
  return typeof a === 'number' ? a & b : operate('and', a, b);
}
export const xor = (a, b) => (typeof a === 'number' ? a ^ b : typeof a === 'boolean' ? a !== b : operate('xor', a, b));
const OPERATORS = { add, sub, mul, div, floordiv, mod, pow, matmul, or, and, xor };
for (const [name, act] of Object.entries({ __neg__: neg, __abs__: value => Math.abs(value) })) {
  Derived.prototype[name] = function () {
    return act(this.value);
  };
}
export function in_place(name, a, b) {
  if (name === 'add' && Array.isArray(a) && !(a instanceof Tuple)) {
    a.push(...iter(b));
    return a;
  }
  if (name === 'or' && a instanceof Dict) {
    for (const [k, v] of pairs(b)) a.put(k, v);
    return a;
  }
  if (name === 'or' && a instanceof PySet) {
    for (const member of iter(b)) a.put(member);
    return a;
  }
  if (a?.$inPlace) return a.$inPlace(name, b);
  return OPERATORS[name](a, b);
}

export function eq(a, b) {
  if (a === b) return true;
  if (a === null || b === null) return false;
  if (isNumber(a) && isNumber(b)) return Number(a) === Number(b);
  if (a?.__eq__) return method(a, '__eq__', b);
  if (b?.__eq__) return method(b, '__eq__', a);
  if (Array.isArray(a) && Array.isArray(b)) {
    return (
      a instanceof Tuple === b instanceof Tuple &&
      a.length === b.length &&
      a.every((value, i) => truth(eq(value, b[i])))
    );
  }
  if (a instanceof Dict && b instanceof Dict)
    return a.size === b.size && a.pairs().every(([k, v]) => b.has(k) && truth(eq(v, b.read(k))));
  if (a instanceof PySet && b instanceof PySet) return a.size === b.size && [...a].every(b.has);
  if (a?.$data && a.constructor === b?.constructor)
    return a.constructor.$fields.every(([name]) => truth(eq(a[name], b[name])));
  return false;
}
export const ne = (a, b) => {
  if (a?.__ne__) return method(a, '__ne__', b);
  return b?.__ne__ ? method(b, '__ne__', a) : !eq(a, b);
};
function order(a, b) {
  if (Array.isArray(a)) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) if (!truth(eq(a[i], b[i]))) return order(a[i], b[i]);
    return a.length - b.length;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}
const simple = (a, b) => (isNumber(a) && isNumber(b)) || (typeof a === 'string' && typeof b === 'string');
const MIRROR = { lt: 'gt', le: 'ge', gt: 'lt', ge: 'le' };
function compared(name, a, b, test) {
  if (a?.[`__${name}__`]) return method(a, `__${name}__`, b);
  if (b?.[`__${MIRROR[name]}__`]) return method(b, `__${MIRROR[name]}__`, a);
  if (a instanceof PySet && name === 'le') return [...a].every(member => isIn(member, b));
  if (a === null || b === null || typeof a !== typeof b) raise('TypeError', `${repr(a)} ${name} ${repr(b)}`);
  return test(order(a, b));
}
export const lt = (a, b) => (simple(a, b) ? a < b : compared('lt', a, b, n => n < 0));
export const le = (a, b) => (simple(a, b) ? a <= b : compared('le', a, b, n => n <= 0));
export const gt = (a, b) => (simple(a, b) ? a > b : compared('gt', a, b, n => n > 0));
export const ge = (a, b) => (simple(a, b) ? a >= b : compared('ge', a, b, n => n >= 0));
for (const [name, act] of Object.entries({ eq, ne, lt, le, gt, ge })) {
  Derived.prototype[`__${name}__`] = function (other) {
    return act(this.value, bare(other));
  };
}
export const is = (a, b) => (a ?? null) === (b ?? null);
export const isNot = (a, b) => !is(a, b);
export function isIn(value, container) {
  if (typeof container === 'string') return container.includes(value);
  if (container instanceof Dict || container instanceof PySet) return container.has(value);
  if (container?.__contains__) return truth(method(container, '__contains__', value));
  for (const member of iter(container)) if (truth(eq(member, value))) return true;
  return false;
}
export const notIn = (value, container) => !isIn(value, container);

// ---- items

const placed = (index, length) => {
  const at = index < 0 ? index + length : index;
  return at < 0 || at >= length ? raise('IndexError', 'index out of range') : at;
};
export function get(object, index) {
  if (typeof object === 'string' || Array.isArray(object)) {
    if (index instanceof Slice) {
      const items = index.indices(object.length).map(i => object[i]);
      return typeof object === 'string' ? items.join('') : object instanceof Tuple ? tuple(items) : items;
    }
    return object[placed(Number(index), object.length)];
  }
  if (object instanceof Dict) return object.has(index) ? object.read(index) : raise('KeyError', repr(index));
  if (typeof object === 'function') return object; // a generic type
  return method(object, '__getitem__', index);
}
export function set(object, index, value) {
  if (Array.isArray(object)) {
    if (index instanceof Slice) object.splice(index.start ?? 0, index.indices(object.length).length, ...iter(value));
    else object[placed(index, object.length)] = value;
  } else if (object instanceof Dict) object.put(index, value);
  else method(object, '__setitem__', index, value);
}
export const del = (object, index) => {
  if (object instanceof Dict) object.remove(index);
  else object.splice(placed(index, object.length), 1);
};
/** The values of an assignment to `count` names; `star` is the index of the name that takes the rest. */
export function unpack(value, count, star) {
  const values = [...iter(value)];
  if (star < 0)
    return values.length === count ? values : raise('ValueError', `${count} names, but ${values.length} values`);
  const rest = values.length - count + 1;
  if (rest < 0) raise('ValueError', `${count - 1} names, but ${values.length} values`);
  return [...values.slice(0, star), values.slice(star, star + rest), ...values.slice(star + rest)];
}

// ---- text

const digitsOf = (value, digits, exponential) => (exponential ? value.toExponential(digits) : value.toFixed(digits));
/** Round as Python does: ties of the exact binary value go to the even digit; JavaScript rounds them up. */
function rounded(value, digits, exponential) {
  const size = Math.abs(value);
  const text = digitsOf(size, digits, exponential);
  const [exact, power = ''] = digitsOf(size, Math.min(100, digits + 60), exponential).split('e');
  const [near] = text.split('e');
  const cut = exact.length - (Math.min(100, digits + 60) - digits);
  if (/^50*$/.test(exact.slice(cut)) && /[02468]$/.test(exact[cut - 1] === '.' ? exact[cut - 2] : exact[cut - 1])) {
    const kept = exact.slice(0, cut).replace(/\.$/, '');
    return (value < 0 || Object.is(value, -0) ? '-' : '') + kept + (power && `e${power}`);
  }
  return (value < 0 || Object.is(value, -0) ? '-' : '') + near + text.slice(near.length);
}
const exponent = text => text.replace(/e([+-])(\d)$/, 'e$10$2');
const trimmed = text => (text.includes('.') ? text.replace(/\.?0+(?=e|$)/, '') : text);
const unbounded = value => (Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf');
function general(value, precision) {
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const written = rounded(value, Math.max(precision, 1) - 1, true);
  const power = Number(written.split('e')[1]);
  if (power < -4 || power >= precision) return exponent(trimmed(written));
  return trimmed(rounded(value, precision - 1 - power, false));
}
const grouped = text => text.replace(/^(-?\d+)/, found => found.replace(/\B(?=(\d{3})+$)/g, ','));

export function format(value, spec = '', conversion = '') {
  if (conversion === 'r') return format(repr(value), spec);
  if (value?.__format__?.$python) return method(value, '__format__', spec);
  if (!spec) return str(value);
  if (value !== null && typeof value === 'object' && value.item) return format(value.item(), spec);
  const found = /^(?:(.)?([<>^]))?([+ ])?(0)?(\d+)?(,)?(?:\.(\d+))?([a-z%])?$/.exec(spec);
  if (!found) raise('ValueError', `format ${spec}`);
  const [, fill = ' ', align, sign, zero, width, comma, precision, type] = found;
  let text;
  if (typeof value === 'string') text = precision === undefined ? value : value.slice(0, Number(precision));
  else if (!Number.isFinite(Number(value))) text = unbounded(value);
  else if (type === 'f') text = rounded(Number(value), Number(precision ?? 6), false);
  else if (type === 'e') text = exponent(rounded(Number(value), Number(precision ?? 6), true));
  else if (type === 'g') text = general(Number(value), Number(precision ?? 6));
  else if (type === '%') text = `${rounded(value * 100, Number(precision ?? 6), false)}%`;
  else if (type === 'x') text = value.toString(16);
  else if (type === 'X') text = value.toString(16).toUpperCase();
  else text = str(value);
  if (comma) text = grouped(text);
  if (sign === '+' && typeof value !== 'string' && !text.startsWith('-')) text = `+${text}`;
  const missing = Number(width ?? 0) - text.length;
  if (missing <= 0) return text;
  if (zero) return text.replace(/^([-+]?)/, `$1${'0'.repeat(missing)}`);
  const side = align ?? (typeof value === 'string' ? '<' : '>');
  if (side === '^') return fill.repeat(missing >> 1) + text + fill.repeat(missing - (missing >> 1));
  return side === '<' ? text + fill.repeat(missing) : fill.repeat(missing) + text;
}

function numberText(value) {
  if (!Number.isFinite(value)) return unbounded(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e16) return Object.is(value, -0) ? '-0.0' : String(value);
  const [mantissa, power] = value.toExponential().split('e');
  if (Number(power) >= -4 && Number(power) < 16)
    return value.toFixed(Math.max(0, mantissa.replace(/[-.]/g, '').length - 1 - Number(power)));
  return exponent(`${mantissa}e${power}`);
}
Derived.prototype.__format__ = function (spec) {
  return format(this.value, spec);
};
Derived.prototype.__repr__ = function () {
  return repr(this.value);
};
export function str(value) {
  if (typeof value === 'string') return value;
  if (value instanceof DerivedText) return value.value;
  if (value instanceof Error) return value.__str__ ? method(value, '__str__') : str(value.args?.[0] ?? value.message);
  return value?.__str__ ? method(value, '__str__') : repr(value);
}
const UNPRINTABLE = /[\p{Cc}\xa0\xad]/gu;
function quotedText(value) {
  const mark = value.includes("'") && !value.includes('"') ? '"' : "'";
  const signs = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };
  const code = c => signs[c] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return mark + value.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`).replace(UNPRINTABLE, code) + mark;
}
export function repr(value) {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'string') return quotedText(value);
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return numberText(value);
  if (value instanceof Tuple) return `(${[...value].map(repr).join(', ')}${value.length === 1 ? ',' : ''})`;
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  if (value instanceof Dict)
    return `{${value
      .pairs()
      .map(([k, v]) => `${repr(k)}: ${repr(v)}`)
      .join(', ')}}`;
  if (value instanceof PySet) return `{${[...value].map(repr).join(', ')}}`;
  return value.__repr__ ? method(value, '__repr__') : `<${value.constructor?.name}>`;
}

const escaped = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const SPACE = /^\s+|\s+$/g;
const among = chars => `[${chars.replace(/[\]\\^-]/g, '\\$&')}]+`;
const left = (text, chars = null) =>
  chars === null ? text.trimStart() : chars && text.replace(new RegExp(`^${among(chars)}`), '');
const right = (text, chars = null) =>
  chars === null ? text.trimEnd() : chars && text.replace(new RegExp(`${among(chars)}$`), '');
const someOf = (parts, test) => (Array.isArray(parts) ? parts.some(test) : test(parts));
const textMethods = {
  strip: (text, chars = null) => (chars === null ? text.replace(SPACE, '') : right(left(text, chars), chars)),
  lstrip: left,
  rstrip: right,
  split(text, separator = null, most = -1) {
    if (separator === null) return text.split(/\s+/).filter(Boolean);
    const parts = text.split(separator);
    return most < 0 || parts.length <= most + 1 ? parts : [...parts.slice(0, most), parts.slice(most).join(separator)];
  },
  partition(text, separator) {
    const at = text.indexOf(separator);
    return tuple(at < 0 ? [text, '', ''] : [text.slice(0, at), separator, text.slice(at + separator.length)]);
  },
  rpartition(text, separator) {
    const at = text.lastIndexOf(separator);
    return tuple(at < 0 ? ['', '', text] : [text.slice(0, at), separator, text.slice(at + separator.length)]);
  },
  replace: (text, old, fresh) => text.replaceAll(old, () => fresh),
  join: (separator, parts) => [...iter(parts)].join(separator),
  startswith: (text, parts) => someOf(parts, part => text.startsWith(part)),
  endswith: (text, parts) => someOf(parts, part => text.endsWith(part)),
  lower: text => text.toLowerCase(),
  upper: text => text.toUpperCase(),
  casefold: text => text.toLowerCase(),
  capitalize: text => text.slice(0, 1).toUpperCase() + text.slice(1).toLowerCase(),
  isdigit: text => /^\p{Nd}+$/u.test(text),
  isspace: text => /^\s+$/.test(text),
  isalpha: text => /^\p{L}+$/u.test(text),
  isidentifier: text => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(text),
  removeprefix: (text, start) => (start && text.startsWith(start) ? text.slice(start.length) : text),
  removesuffix: (text, end) => (end && text.endsWith(end) ? text.slice(0, text.length - end.length) : text),
  translate: (text, table) =>
    [...text].map(c => (table.has(c.codePointAt(0)) ? (table.read(c.codePointAt(0)) ?? '') : c)).join(''),
  find: (text, part) => text.indexOf(part),
  index: (text, part) => (text.includes(part) ? text.indexOf(part) : raise('ValueError', 'substring not found')),
  count: (text, part) => text.split(part).length - 1,
  splitlines: text => text.replace(/\r?\n$/, '').split(/\r\n|\r|\n/),
  format(text, ...args) {
    let at = 0;
    const [values, byName] = parsed(args);
    return text.replace(/\{(\w*)\}/g, (_, name) =>
      str(name === '' ? values[at++] : /\d/.test(name) ? values[Number(name)] : byName[name]),
    );
  },
  ljust: (text, width) => text.padEnd(width),
  rjust: (text, width) => text.padStart(width),
  zfill: (text, width) => text.padStart(width, '0'),
};
const sortKey = args => {
  const [[values], { key: by = null, reverse = false }] = parsed(args);
  return [values, by, reverse];
};
const inOrder = (values, by, reverse) => {
  const keyed = [...values].map((value, i) => [by === null ? value : call(by, value), i, value]);
  keyed.sort(
    (a, b) => (truth(lt(a[0], b[0])) ? -1 : truth(lt(b[0], a[0])) ? 1 : 0) * (reverse ? -1 : 1) || a[1] - b[1],
  );
  return keyed.map(entry => entry[2]);
};
const listMethods = {
  append: (list, value) => void list.push(value),
  extend: (list, values) => void list.push(...iter(values)),
  pop: (list, at = -1) => list.splice(placed(at, list.length), 1)[0],
  insert: (list, at, value) => void list.splice(at, 0, value),
  remove: (list, value) => void list.splice(listMethods.index(list, value), 1),
  index(list, value) {
    const at = list.findIndex(member => truth(eq(member, value)));
    return at < 0 ? raise('ValueError', `${repr(value)} is not in list`) : at;
  },
  count: (list, value) => list.filter(member => truth(eq(member, value))).length,
  sort: (list, ...args) => void list.splice(0, list.length, ...inOrder(list, ...sortKey([list, ...args]).slice(1))),
  reverse: list => void list.reverse(),
  copy: list => [...list],
  clear: list => void list.splice(0),
  numel: list => list.reduce((a, b) => a * b, 1), // torch.Size
};
const dictMethods = {
  get: (table, k, otherwise = null) => (table.has(k) ? table.read(k) : otherwise),
  items: table => table.pairs().map(tuple),
  keys: table => [...table],
  values: table => table.pairs().map(pair => pair[1]),
  pop(table, k, ...otherwise) {
    if (!table.has(k)) return otherwise.length ? otherwise[0] : raise('KeyError', repr(k));
    const value = table.read(k);
    table.remove(k);
    return value;
  },
  setdefault(table, k, value = null) {
    if (!table.has(k)) table.put(k, value);
    return table.read(k);
  },
  update(table, ...args) {
    const [[other = []], byName] = parsed(args);
    in_place('or', table, [...pairs(other), ...Object.entries(byName)]);
  },
  copy: table => new Dict(table.pairs()),
};
const setMethods = {
  add: (members, value) => void members.put(value),
  update: (members, values) => void in_place('or', members, values),
  discard: (members, value) => void members.remove(value),
  issubset: (members, other) => [...members].every(member => isIn(member, other)),
  copy: members => new PySet(members),
};
const numberMethods = { is_integer: value => Number.isInteger(value) };

// ---- built-in functions

const kindOf = (f, holds) => Object.assign(f, { $holds: holds });
function number(value) {
  if (isNumber(value)) return Number(value);
  if (typeof value !== 'string') return method(value, '__float__');
  const text = value.trim().replace(/(?<=\d)_(?=\d)/g, '');
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  const special = /^([+-]?)(inf|infinity|nan)$/i.exec(text);
  if (!special) raise('ValueError', `could not convert string to float: ${repr(value)}`);
  return special[2].toLowerCase() === 'nan'
    ? Number.NaN
    : special[1] === '-'
      ? Number.NEGATIVE_INFINITY
      : Number.POSITIVE_INFINITY;
}
function whole(value) {
  if (typeof value !== 'string') return Math.trunc(number(value));
  return /^\s*[+-]?\d+\s*$/.test(value)
    ? Number(value)
    : raise('ValueError', `invalid literal for int(): ${repr(value)}`);
}
const extreme =
  better =>
  (...args) => {
    const [given, { key: by = null, default: otherwise }] = parsed(args);
    const values = given.length === 1 ? [...iter(given[0])] : given;
    if (!values.length) return otherwise === undefined ? raise('ValueError', 'empty') : otherwise;
    const rank = value => (by === null ? value : call(by, value));
    return values.reduce((best, value) => (truth(better(rank(value), rank(best))) ? value : best));
  };
function* zip(...args) {
  const [lists, { strict = false }] = parsed(args);
  const sources = lists.map(list => iter(list)[Symbol.iterator]());
  if (!sources.length) return;
  for (;;) {
    const taken = sources.map(source => source.next());
    const ended = taken.filter(one => one.done).length;
    if (ended && strict && ended < taken.length) raise('ValueError', 'zip() arguments have different lengths');
    if (ended) return;
    yield tuple(taken.map(one => one.value));
  }
}
const error = (name, Base = Exception) => Object.assign({ [name]: class extends Base {} }[name], { __name__: name });
const ValueError = error('ValueError');
const LookupError = error('LookupError');
const ArithmeticError = error('ArithmeticError');

export const B = {
  len,
  repr,
  isinstance,
  iter: value => iter(value)[Symbol.iterator](),
  Exception,
  BaseException: Exception,
  ValueError,
  LookupError,
  TypeError: error('TypeError'),
  KeyError: error('KeyError', LookupError),
  IndexError: error('IndexError', LookupError),
  AttributeError: error('AttributeError'),
  NotImplementedError: error('NotImplementedError'),
  StopIteration: error('StopIteration'),
  ZeroDivisionError: error('ZeroDivisionError', ArithmeticError),
  OverflowError: error('OverflowError', ArithmeticError),
  RuntimeError: error('RuntimeError'),
  OSError: error('OSError'),
  UnicodeDecodeError: error('UnicodeDecodeError', ValueError),
  FileNotFoundError: error('FileNotFoundError'),
  AssertionError: error('AssertionError'),
  MemoryError: error('MemoryError'),
  NoneType: kindOf(
    () => null,
    value => value === null,
  ),
  object: Obj,
  str: Object.assign(
    kindOf(
      value => (value === undefined ? '' : str(value)),
      value => typeof value === 'string' || value instanceof DerivedText,
    ),
    {
      __hash__: value => value,
      maketrans: (from, to) =>
        from instanceof Dict
          ? new Dict(from.pairs().map(([k, v]) => [k.codePointAt(0), v]))
          : new Dict([...from].map((c, i) => [c.codePointAt(0), [...to][i]])),
    },
  ),
  int: kindOf(
    (value = 0) => whole(value),
    value => typeof value === 'boolean' || Number.isInteger(value),
  ),
  float: Object.assign(
    kindOf(
      (value = 0) => number(value),
      value => typeof value === 'number' || value instanceof DerivedFloat,
    ),
    { __hash__: value => value },
  ),
  bool: kindOf(
    value => truth(value),
    value => typeof value === 'boolean',
  ),
  list: kindOf(
    (values = []) => [...iter(values)],
    value => Array.isArray(value) && !(value instanceof Tuple),
  ),
  tuple: kindOf(
    (values = []) => tuple(iter(values)),
    value => value instanceof Tuple,
  ),
  dict: Object.assign(
    kindOf(
      (...args) => {
        const [[from = []], byName] = parsed(args);
        return new Dict([...(from instanceof Dict ? from.pairs() : iter(from)), ...Object.entries(byName)]);
      },
      value => value instanceof Dict,
    ),
    { fromkeys: (keys, value = null) => new Dict([...iter(keys)].map(k => [k, value])) },
  ),
  set: kindOf(
    (values = []) => new PySet(iter(values)),
    value => value instanceof PySet,
  ),
  frozenset: kindOf(
    (values = []) => new PySet(iter(values)),
    value => value instanceof PySet,
  ),
  vars: value => new Dict(Object.entries(value)),
  type: value => value.constructor,
  callable: value => typeof value === 'function' || Boolean(value?.__call__),
  range: (...bounds) => slice(...(bounds.length === 1 ? [0, bounds[0]] : bounds).concat(1).slice(0, 3)).range(),
  *enumerate(...args) {
    const [[values, second], { start = second ?? 0 }] = parsed(args);
    let at = start;
    for (const value of iter(values)) yield tuple([at++, value]);
  },
  zip,
  *map(f, ...lists) {
    for (const values of zip(...lists)) yield call(f, ...values);
  },
  *filter(f, values) {
    for (const value of iter(values)) if (truth(f === null ? value : call(f, value))) yield value;
  },
  sum(...args) {
    const [[values, second], { start = second ?? 0 }] = parsed(args);
    let total = start;
    for (const value of iter(values)) total = add(total, value);
    return total;
  },
  min: extreme(lt),
  max: extreme(gt),
  abs: value => (isNumber(value) ? Math.abs(value) : method(value, '__abs__')),
  round: (value, digits = null) =>
    digits === null ? Number(rounded(value, 0, false)) : Number(rounded(value, digits, false)),
  sorted: (...args) => {
    const [values, by, reverse] = sortKey(args);
    return inOrder(iter(values), by, reverse);
  },
  reversed: values => [...iter(values)].reverse(),
  any: values => {
    for (const value of iter(values)) if (truth(value)) return true;
    return false;
  },
  all: values => {
    for (const value of iter(values)) if (!truth(value)) return false;
    return true;
  },
  next(values, ...otherwise) {
    const { done, value } = values.next();
    return done ? (otherwise.length ? otherwise[0] : raise('StopIteration', '')) : value;
  },
  hasattr: (object, name) => object?.[name] !== undefined || Boolean(tableOf(object)?.[name]),
  getattr: (object, name, ...otherwise) =>
    otherwise.length && !B.hasattr(object, name) ? otherwise[0] : attr(object, name),
  setattr: (object, name, value) => {
    object[name] = value;
  },
  ord: c => c.codePointAt(0),
  chr: code => String.fromCodePoint(code),
  divmod: (a, b) => tuple([floordiv(a, b), mod(a, b)]),
  pow,
};
B.object.__setattr__ = (object, name, value) => {
  object[name] = value;
};
Slice.prototype.range = function () {
  const out = [];
  for (let i = this.start; this.step > 0 ? i < this.stop : i > this.stop; i += this.step) out.push(i);
  return out;
};

// ---- standard library

const makeField = (...args) => {
  const [, values] = parsed(args);
  const fresh = () => (values.default_factory ? call(values.default_factory) : (values.default ?? null));
  return new Field({ ...values, fresh });
};
const copied = value => {
  if (Array.isArray(value)) return value instanceof Tuple ? tuple([...value].map(copied)) : value.map(copied);
  if (value instanceof Dict) return new Dict(value.pairs().map(([k, v]) => [k, copied(v)]));
  if (value?.$data) return new Dict(value.constructor.$fields.map(([name]) => [name, copied(value[name])]));
  return value;
};
export const dataclasses = {
  field: makeField,
  asdict: copied,
  replace(object, ...args) {
    const [, changes] = parsed(args);
    const open = object.constructor.$fields.filter(([name]) => object.constructor.$defaults[name]?.init !== false);
    return call(
      object.constructor,
      named({ ...Object.fromEntries(open.map(([name]) => [name, object[name]])), ...changes }),
    );
  },
  dataclass: (...args) => args[0],
};

class Match {
  constructor(found) {
    this.found = found;
  }
  __getitem__ = at => (typeof at === 'string' ? this.found.groups[at] : this.found[at]) ?? null;
  group = (at = 0) => this.found[at] ?? null;
  groups = () => tuple(this.found.slice(1).map(part => part ?? null));
  start = () => this.found.index;
  end = () => this.found.index + this.found[0].length;
}
class Pattern {
  constructor(text, flags) {
    // \w is any letter, as in Python
    const source = text
      .replaceAll('(?P<', '(?<')
      .replace(/\[\\w/g, '[\\p{L}\\p{N}_')
      .replaceAll('\\w', '[\\p{L}\\p{N}_]');
    this.source = source;
    this.flags = source === text ? flags : `${flags}u`;
  }
  regex = (flags, source = this.source) => new RegExp(source, this.flags + flags);
  one = found => (found ? new Match(found) : null);
  match = text => this.one(this.regex('y').exec(text));
  fullmatch = text => this.one(this.regex('y', `(?:${this.source})$(?![^])`).exec(text));
  search = text => this.one(this.regex('').exec(text));
  finditer = text => [...text.matchAll(this.regex('g'))].map(found => new Match(found));
  findall = text =>
    [...text.matchAll(this.regex('g'))].map(found =>
      found.length > 2 ? tuple(found.slice(1)) : (found[1] ?? found[0]),
    );
  split = (text, most = 0) =>
    most
      ? [text.slice(0, text.search(this.regex(''))), text.replace(this.regex('s', `^[^]*?(?:${this.source})`), '')]
      : text.split(this.regex('')).map(part => part ?? null);
  sub = (fresh, text, most = 0) => {
    const write = found =>
      typeof fresh === 'string'
        ? fresh.replace(/\\(\d)|\\(.)/g, (_, at, c) => (at ? (found[at] ?? '') : c === 'n' ? '\n' : c))
        : call(fresh, new Match(found));
    let out = '';
    let end = 0;
    let count = 0;
    for (const found of text.matchAll(this.regex('g'))) {
      if (most && count++ === most) break;
      out += text.slice(end, found.index) + write(found);
      end = found.index + found[0].length;
    }
    return out + text.slice(end);
  };
}
const compiled = new Map();
const compile = (pattern, flags = '') => {
  if (pattern instanceof Pattern) return pattern;
  const name = `${flags}/${pattern}`;
  if (!compiled.has(name)) compiled.set(name, new Pattern(pattern, flags));
  return compiled.get(name);
};
const byPattern =
  name =>
  (pattern, ...args) => {
    const [given, { flags = '', count = 0 }] = parsed(args);
    return compile(pattern, flags)[name](...given, ...(count ? [count] : []));
  };
export const re = {
  compile,
  S: 's',
  DOTALL: 's',
  M: 'm',
  I: 'i',
  escape: escaped,
  ...Object.fromEntries(
    ['match', 'fullmatch', 'search', 'findall', 'finditer', 'split', 'sub'].map(name => [name, byPattern(name)]),
  ),
};

export const math = {
  ...Object.fromEntries(
    [
      'exp',
      'sin',
      'cos',
      'tan',
      'tanh',
      'sqrt',
      'floor',
      'ceil',
      'log2',
      'log10',
      'log1p',
      'acos',
      'atan',
      'hypot',
    ].map(name => [name, value => Math[name](Number(value))]),
  ),
  log: (value, base = null) =>
    Number(value) <= 0
      ? raise('ValueError', 'math domain error')
      : base === null
        ? Math.log(value)
        : Math.log(value) / Math.log(base),
  degrees: value => (Number(value) * 180) / Math.PI,
  radians: value => (Number(value) * Math.PI) / 180,
  pi: Math.PI,
  e: Math.E,
  inf: Number.POSITIVE_INFINITY,
  nan: Number.NaN,
  isfinite: value => Number.isFinite(Number(value)),
  isinf: value => Math.abs(Number(value)) === Number.POSITIVE_INFINITY,
  isnan: value => Number.isNaN(Number(value)),
  isclose(first, second, ...args) {
    const { rel_tol = 1e-9, abs_tol = 0 } = parsed(args)[1];
    const [a, b] = [Number(first), Number(second)];
    return (
      a === b ||
      (Number.isFinite(a) &&
        Number.isFinite(b) &&
        Math.abs(a - b) <= Math.max(rel_tol * Math.max(Math.abs(a), Math.abs(b)), abs_tol))
    );
  },
  prod: values => [...iter(values)].reduce((a, b) => a * b, 1),
  fsum: values => [...iter(values)].reduce((a, b) => a + b, 0),
};

export const itertools = {
  *product(...args) {
    const [lists, { repeat = 1 }] = parsed(args);
    const pools = repeated(
      lists.map(list => [...iter(list)]),
      repeat,
    );
    let rows = [[]];
    for (const pool of pools) rows = rows.flatMap(row => pool.map(value => [...row, value]));
    yield* rows.map(tuple);
  },
  *chain(...lists) {
    for (const list of lists) yield* iter(list);
  },
  *pairwise(values) {
    const all = [...iter(values)];
    for (let i = 1; i < all.length; i++) yield tuple([all[i - 1], all[i]]);
  },
  *islice(values, most) {
    let at = 0;
    for (const value of iter(values))
      if (at++ < most) yield value;
      else return;
  },
};
itertools.chain.from_iterable = lists => itertools.chain(...iter(lists));

export const contextlib = {
  contextmanager: f => {
    const made = (...args) => {
      const running = f(...args);
      return {
        __enter__: () => running.next().value,
        __exit__: (_kind, thrown) => {
          if (thrown) running.throw(thrown);
          else running.next();
          return Boolean(thrown);
        },
      };
    };
    made.$python = f.$python;
    return made;
  },
  suppress: (...kinds) => ({
    __enter__: () => null,
    __exit__: (_kind, thrown) => thrown !== null && isinstance(thrown, kinds),
  }),
  nullcontext: (value = null) => ({ __enter__: () => value, __exit__: () => false }),
};
export const functools = {
  partial: (f, ...args) => {
    const [given, byName] = parsed(args);
    return (...more) => {
      const [rest, moreNamed] = parsed(more);
      return call(f, ...given, ...rest, named({ ...byName, ...moreNamed }));
    };
  },
  cache: f => f,
  lru_cache: () => f => f,
};
export const typing = {
  get_args: values => values,
  cast: (_kind, value) => value,
  Any: kindOf(
    () => null,
    () => true,
  ),
  Literal: values => values,
};
export const abc = {
  Sequence: kindOf(
    () => null,
    value => Array.isArray(value) || typeof value === 'string',
  ),
  Mapping: kindOf(
    () => null,
    value => value instanceof Dict,
  ),
  Collection: kindOf(
    () => null,
    value => value?.[Symbol.iterator] !== undefined,
  ),
  Callable: kindOf(
    () => null,
    value => B.callable(value),
  ),
  Set: kindOf(
    () => null,
    value => value instanceof PySet,
  ),
};
export const fractions = {
  Fraction: text => {
    const found = /^\s*([+-]?\d+)\/(\d+)\s*$/.exec(text);
    if (!found) raise('ValueError', `Invalid literal for Fraction: ${repr(text)}`);
    return Number(found[2]) === 0 ? raise('ZeroDivisionError', 'Fraction') : Number(found[1]) / Number(found[2]);
  },
};
const WIDE = new RegExp(
  `[${[
    String.raw`\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f`,
    String.raw`\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6`,
    String.raw`\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}`,
  ].join('')}]`,
  'u',
);
export const unicodedata = {
  combining: c => (/\p{Mn}/u.test(c) ? 1 : 0),
  east_asian_width: c => (WIDE.test(c) ? 'W' : 'N'),
  normalize: (form, text) => text.normalize(form),
};
export const textwrap = {
  wrap(text, width, ...args) {
    const [, { initial_indent: first = '', subsequent_indent: hang = '' }] = parsed(args);
    const chunks = text
      .replace(/[\t\n\v\f\r]/g, ' ')
      .split(/(\s+)/)
      .filter(Boolean);
    const lines = [];
    let line = [];
    let size = 0;
    const close = () => {
      while (line.length && !line.at(-1).trim()) line.pop();
      if (line.length) lines.push((lines.length ? hang : first) + line.join(''));
      line = [];
      size = 0;
    };
    for (const chunk of chunks) {
      const room = width - (lines.length ? hang : first).length;
      if (size + chunk.length > room) close();
      if (!line.length && !chunk.trim() && lines.length) continue;
      line.push(chunk);
      size += chunk.length;
    }
    close();
    return lines;
  },
};
const jsonText = value => JSON.stringify(value instanceof Dict ? Object.fromEntries(value.pairs()) : value);
export const json = { dumps: value => jsonText(value), loads: text => JSON.parse(text) };
export const operator = {
  index: value => (isNumber(value) ? Number(value) : method(value, value?.__index__ ? '__index__' : 'item')),
};
export const parse = {
  parse_qs(text) {
    const found = new Dict();
    for (const [name, value] of new URLSearchParams(text))
      if (value) found.put(name, [...(found.read(name) ?? []), value]);
    return found;
  },
};
/** JSON as Python's values, and back. */
export const fromJson = value =>
  Array.isArray(value)
    ? value.map(fromJson)
    : value && typeof value === 'object'
      ? new Dict(Object.entries(value).map(([name, each]) => [name, fromJson(each)]))
      : value;
export const toJson = value =>
  Array.isArray(value)
    ? [...value].map(toJson)
    : value instanceof Dict
      ? Object.fromEntries(value.pairs().map(([name, each]) => [name, toJson(each)]))
      : bare(value);
export const shlex = {
  split: text => [...text.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(found => found[1] ?? found[2] ?? found[3]),
};
const translate = glob => `^${[...glob].map(c => (c === '*' ? '.*' : c === '?' ? '.' : escaped(c))).join('')}$`;
export const fnmatch = { translate };
/** How similar two texts are, and the most similar ones, as in Python's difflib. */
const blocks = (a, b) => {
  let best = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    for (let j = 0; j < b.length; j++) {
      let size = 0;
      while (i + size < a.length && j + size < b.length && a[i + size] === b[j + size]) size++;
      if (size > best[2]) best = [i, j, size];
    }
  }
  const [i, j, size] = best;
  return size ? size + blocks(a.slice(0, i), b.slice(0, j)) + blocks(a.slice(i + size), b.slice(j + size)) : 0;
};
export const difflib = {
  get_close_matches(word, names, ...args) {
    const [[n = 3, cutoff = 0.6], byName] = parsed(args);
    const ratio = name => (name.length + word.length ? (2 * blocks(name, word)) / (name.length + word.length) : 1);
    const close = [...iter(names)]
      .map(name => [ratio(name), name])
      .filter(([size]) => size >= (byName.cutoff ?? cutoff));
    return close
      .sort((a, b) => order(b, a))
      .slice(0, byName.n ?? n)
      .map(entry => entry[1]);
  },
};
export const copy = {
  deepcopy: value => value.$deepcopy?.() ?? copied(value),
  copy: value => (Array.isArray(value) ? [...value] : value),
};
export const unknown = name =>
  new Proxy({}, { get: (_, part) => () => raise('NotImplementedError', `${name}.${String(part)}`) });
export const programs = new Proxy({}, { get: () => () => null });
export const nothing = () => null;
export const lshift = (a, b) => a << b;

// ---- HTML and MathML

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#x27;' };
export const escapeHtml = text => text.replace(/[&<>"']/g, c => ENTITIES[c]);
export const lines = (...parts) => parts.join('\n');
class Element {
  static $class = true;
  __init__(tag, attributes) {
    Object.assign(this, { tag, attrib: attributes, children: [], text: null });
  }
  extend(children) {
    this.children.push(...children);
  }
  set(name, value) {
    this.attrib.put(name, value);
  }
  get(name) {
    return this.attrib.read(name) ?? null;
  }
  [Symbol.iterator]() {
    return this.children[Symbol.iterator]();
  }
}
const xml = ({ tag, attrib, children, text }) => {
  const given = attrib.pairs().map(([name, value]) => ` ${name}="${escapeHtml(value)}"`);
  return `<${tag}${given.join('')}>${escapeHtml(text ?? '')}${children.map(xml).join('')}</${tag}>`;
};
export const etree = { Element, tostring: xml };
const BOLD = { a: 0x1d41a, A: 0x1d400, 0: 0x1d7ce };
const SCRIPTS = { E: 'ℰ', L: 'ℒ' };
/** The bold or script form of a letter. */
export const inAlphabet = (letter, style) => {
  if (style === 'mathcal') return SCRIPTS[letter] ?? raise('ValueError', `no ${letter} for mathcal`);
  const start = /\d/.test(letter) ? '0' : /[a-z]/.test(letter) ? 'a' : 'A';
  return String.fromCodePoint(BOLD[start] + letter.charCodeAt(0) - start.charCodeAt(0));
};
