"use strict";

const METHODS = ["get", "all", "run", "iterate", "bind"];

/** Values of every kind, most of which SQLite does not know. */
const values = {
  undefined: undefined,
  null: null,
  true: true,
  zero: 0,
  "minus zero": -0,
  fraction: 1.5,
  "not a number": Number.NaN,
  infinite: Number.POSITIVE_INFINITY,
  "beyond 2^53": 2 ** 53 + 2,
  bigint: 5n,
  "smallest bigint": -(2n ** 63n),
  "bigint too small": -(2n ** 63n) - 1n,
  "bigint too large": 2n ** 63n,
  text: "x",
  "empty text": "",
  "text with NUL": "a\0b",
  "text beyond the BMP": "😀",
  symbol: Symbol("x"),
  function: () => 1,
  date: new Date(0),
  buffer: Buffer.from([1, 2]),
  "part of a buffer": Buffer.from([1, 2, 3, 4]).subarray(1, 3),
  "empty buffer": Buffer.alloc(0),
  "typed array": new Uint16Array([258]),
  "data view": new DataView(new ArrayBuffer(3)),
  "array buffer": new ArrayBuffer(2),
  map: new Map(),
  "empty object": {},
  "object without a prototype": Object.assign(Object.create(null), { a: 3 }),
  "object that inherits": Object.create({ a: 1 }),
  "object of a class": new (class {
    a = 1;
  })(),
  "empty array": [],
  array: [1],
  "nested array": [[1]],
  "array with a hole": new Array(1),
  boxed: Object(3),
  error: new Error("x"),
};

const cases = {};

for (const [name, value] of Object.entries(values)) {
  cases[`${name} as a parameter`] = (db, attempt) => {
    attempt("positional", () => db.prepare("SELECT ? AS a").get(value));
    attempt("literal", () => db.prepare("SELECT quote(?) AS a").get(value));
    attempt("for a named one", () => db.prepare("SELECT @a AS a").get(value));
    attempt("named", () => db.prepare("SELECT @a AS a, typeof(@a) AS type").get({ a: value }));
    attempt("for none", () => db.prepare("SELECT 1 AS a").get(value));
    attempt("in an array", () => db.prepare("SELECT ? AS a").get([value]));
    attempt("stored", () => {
      db.prepare("INSERT INTO t(any) VALUES (?)").run(value);
      return db.prepare("SELECT any, typeof(any) AS type, hex(any) AS hex FROM t WHERE id = 4").get();
    });
  };
}

/** @param {string} name @param {string} sql @param {unknown[]} given */
function each(name, sql, ...given) {
  cases[name] = (db, attempt) => {
    for (const method of METHODS) {
      attempt(method, () => {
        const statement = db.prepare(sql);
        const result = statement[method](...given);
        if (method === "iterate") return [...result];
        return method === "bind" ? result === statement : result;
      });
    }
  };
}

each("none given", "SELECT ?");
each("too few", "SELECT ?, ?", 1);
each("too many", "SELECT ?", 1, 2);
each("names without values", "SELECT @a");
each("names and places without values", "SELECT @a, ?");
each("a place filled and a name not", "SELECT @a, ?", 1);
each("a name filled and a place not", "SELECT @a AS x, ? AS y", { a: 1 });
each("names before places", "SELECT @a AS x, ? AS y", { a: 1 }, 2);
each("places before names", "SELECT ? AS y, @a AS x", 2, { a: 1 });
each("more names than wanted", "SELECT @a AS x", { a: 1, b: 2 });
each("two objects", "SELECT @a AS x, @b AS y", { a: 1 }, { b: 2 });
each("two empty objects", "SELECT 1 AS x", {}, {});
each("an object for a place", "SELECT ? AS x", { a: 1 });
each("an object beside places", "SELECT ?, ?", {}, 1);
each("empty arrays and objects for none", "SELECT 1 AS x", [], {}, []);
each("arrays among values", "SELECT ? AS x, ? AS y, ? AS z", [1], 2, [3]);
each("a numbered place by position", "SELECT ?1 AS x", 1);
each("a numbered place by name", "SELECT ?1 AS x", { 1: 5 });
each("a gap in the numbers by name", "SELECT ?3 AS x", 1, 2, { 3: 4 });
each("a gap in the numbers by position", "SELECT ?3 AS x", 1, 2, 3);
each("every prefix", "SELECT @a AS x, :a AS y, $a AS z", { a: 6 });
each("a name twice", "SELECT @a AS x, @a AS y", { a: 6 });
each("a place for a name", "SELECT @a", 1);
each("an array for a name", "SELECT @a", [1]);
each("a name that objects inherit", "SELECT @toString AS x", {});
each("the name __proto__", "SELECT @__proto__ AS x", JSON.parse('{"__proto__": 3}'));
each("a name with an accent", "SELECT @é AS x", { é: 2 });
each("a wrong value among right ones", "SELECT ?, ?", [1, true]);
each("a wrong value after too many", "SELECT ?", 1, true);
each("a wrong value before too few", "SELECT ?, ?", true);
each("two wrong values", "SELECT ?, ?", 2n ** 64n, true);
each("a wrong value and a missing name", "SELECT @a, @b", { b: true });
each("a getter", "SELECT @a AS x", {
  get a() {
    return 4;
  },
});
each("a getter that throws", "SELECT @a AS x", {
  get a() {
    throw new Error("mine");
  },
});

cases["a getter that uses the same statement"] = (db, attempt) => {
  const statement = db.prepare("SELECT @a AS a");
  attempt("get", () =>
    statement.get({
      get a() {
        return statement.get({ a: 3 }).a + 1;
      },
    }),
  );
};

cases["bind copies at once"] = (db, attempt) => {
  const buffer = Buffer.from([1]);
  const array = [1];
  const ofBuffer = db.prepare("SELECT ? AS a").bind(buffer);
  const ofArray = db.prepare("SELECT ? AS a").bind(array);
  [buffer[0], array[0]] = [2, 2];
  attempt("buffer", () => ofBuffer.get());
  attempt("array", () => ofArray.get());
};

cases["bind is once, and for good"] = (db, attempt) => {
  const statement = db.prepare("SELECT ? AS a");
  attempt("a wrong value", () => statement.bind(true));
  attempt("a right one after it", () => statement.bind(3).get());
  attempt("again", () => statement.bind());
  attempt("get with a parameter", () => statement.get(1));
  attempt("iterate with a parameter", () => statement.iterate(1));
  attempt("busy", () => statement.busy);
  attempt("all", () => statement.all());
  attempt("iterate", () => [...statement.iterate()]);
};

cases["as many as SQLite takes"] = (db, attempt) => {
  const many = Array.from({ length: 2_000 }, (_, index) => index);
  attempt("array", () => db.prepare(`SELECT max(${many.map(() => "?").join(", ")}) AS m`).get(many));
  attempt("too many", () => db.prepare(`SELECT ${Array(40_000).fill("?").join(", ")}`));
};

module.exports = cases;
