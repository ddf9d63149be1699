"use strict";

const vm = require("node:vm");
const { createHash } = require("node:crypto");
const { canonicalJson, jsonFingerprint } = require("..");
const { at, refused, rows, world } = require("./support");

describe("canonicalJson", () => {
  it.each([
    [null, "null"],
    ["\ud800é\u2028\u0000", '"\\ud800é\u2028\\u0000"'],
    [-0, "0"],
    [1e21, "1e+21"],
    [5e-324, "5e-324"],
    // biome-ignore lint/suspicious/noSparseArray: the hole is the case
    [[, 1], "[null,1]"],
    [{ b: 1, a: undefined, 10: 1, 2: 1, "01": 1 }, '{"2":1,"10":1,"01":1,"b":1}'],
    [{ 4294967294: 1, 4294967295: 1, "": 1 }, '{"4294967294":1,"":1,"4294967295":1}'],
    [{ "\uffff": 1, "\u{1f600}": 2 }, '{"\u{1f600}":2,"\uffff":1}'],
    [JSON.parse('{"__proto__":{"x":1},"a":1}'), '{"a":1}'],
    [Object.assign(Object.create(null), { b: 1, a: 2 }), '{"a":2,"b":1}'],
    [{ [Symbol("s")]: 1, a: 1 }, '{"a":1}'],
    [Object.defineProperty({ a: 1 }, "b", { value: 2, enumerable: false }), '{"a":1}'],
  ])("prints %p", (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  it.each([
    [Number.NaN, "JSON numbers must be finite"],
    [[Number.POSITIVE_INFINITY], "JSON numbers must be finite"],
    [new Date(0), "Only plain objects can be stored as canonical JSON"],
    [new Map(), "Only plain objects can be stored as canonical JSON"],
    [{ a: new (class Point {})() }, "Only plain objects can be stored as canonical JSON"],
    [Buffer.from("x"), "Only plain objects can be stored as canonical JSON"],
    [Object.create({ inherited: 1 }), "Only plain objects can be stored as canonical JSON"],
    [
      JSON.parse('{"__proto__":1}') && Object.defineProperty({}, "__proto__", { value: new Date(0), enumerable: true }),
      "Only plain objects can be stored as canonical JSON",
    ],
    [undefined, "Unsupported JSON value type: undefined"],
    [[undefined], "Unsupported JSON value type: undefined"],
    [1n, "Unsupported JSON value type: bigint"],
    [{ toJSON: () => 1 }, "Unsupported JSON value type: function"],
    [{ a: Symbol("s") }, "Unsupported JSON value type: symbol"],
  ])("refuses %p", (value, message) => {
    expect(() => canonicalJson(value)).toThrow(message);
  });

  it("refuses cycles and absurd nesting, and takes what is reasonable", () => {
    const cycle = {};
    cycle.self = [cycle];
    let deep = [];
    for (let level = 0; level < 500_000; level += 1) deep = [deep];
    for (const value of [cycle, deep]) expect(() => canonicalJson(value)).toThrow(/nested too deeply, cyclic/);
    let tolerable = 1;
    for (let level = 0; level < 500; level += 1) tolerable = { tolerable };
    expect(JSON.parse(canonicalJson(tolerable))).toStrictEqual(tolerable);
  });

  it("passes an error of a getter on unchanged", () => {
    const error = new TypeError("mine");
    const value = {
      get a() {
        throw error;
      },
    };
    expect(() => canonicalJson(value)).toThrow(error);
  });

  it("takes plain objects of another realm, and no others", () => {
    expect(canonicalJson(vm.runInNewContext("({ b: [1], a: Object.create(null) })"))).toBe('{"a":{},"b":[1]}');
    expect(() => canonicalJson(vm.runInNewContext("new Date(0)"))).toThrow("Only plain objects");
  });

  it("is a fixed point", () => {
    const text = canonicalJson({ z: [{ b: 1.5, a: "\ud800" }], 1: {}, é: null });
    expect(canonicalJson(JSON.parse(text))).toBe(text);
  });
  it("escapes every code unit as JSON.stringify does", () => {
    const units = Array.from({ length: 0x10000 }, (_, unit) => String.fromCharCode(unit));
    expect(canonicalJson(units)).toBe(JSON.stringify(units));
  });

  it("prints shared and frozen parts each time, and calls a getter", () => {
    const shared = Object.freeze({ b: 1, a: Object.freeze([1]) });
    const value = {
      two: shared,
      get one() {
        return shared;
      },
    };
    expect(canonicalJson(value)).toBe('{"one":{"a":[1],"b":1},"two":{"a":[1],"b":1}}');
  });

  it("does not touch what it is given", () => {
    const value = { b: [{ z: 1, a: undefined }], a: -0 };
    canonicalJson(value);
    expect(Object.keys(value)).toStrictEqual(["b", "a"]);
    expect(value).toStrictEqual({ b: [{ z: 1, a: undefined }], a: -0 });
  });
});

describe("jsonFingerprint", () => {
  it("is the SHA-256 of the canonical text", () => {
    const value = { b: "é", a: [1] };
    expect(jsonFingerprint(value)).toBe(createHash("sha256").update(canonicalJson(value)).digest("hex"));
    expect(jsonFingerprint({ a: [1], b: "é" })).toBe(jsonFingerprint(value));
  });
});

describe("stored JSON", () => {
  it("is the canonical text, under its own digest", () => {
    const store = world().open();
    const spec = { z: ["\ud800", 1e21, -0], 10: {}, é: null, a: undefined };
    store.putResource({ controller: "jobs", key: "one", spec, initialStatus: 1, now: at(0) });
    const hash = Buffer.from(jsonFingerprint(spec), "hex");
    expect(rows(store, "blobs").find((blob) => blob.blob_hash.equals(hash))).toMatchObject({
      media_type: "application/json",
      byte_length: Buffer.byteLength(canonicalJson(spec)),
      content: Buffer.from(canonicalJson(spec)),
    });
  });

  it("pollutes nothing", () => {
    const store = world().open();
    const spec = JSON.parse('{"__proto__":{"polluted":true},"constructor":1,"toString":2}');
    const stored = store.putResource({ controller: "jobs", key: "one", spec, initialStatus: 1, now: at(0) }).spec;
    expect(Object.entries(stored)).toStrictEqual([
      ["constructor", 1],
      ["toString", 2],
    ]);
    expect({}.polluted).toBeUndefined();
  });

  it("is refused, with nothing written, where it has no end", () => {
    const store = world().open();
    const cycle = {};
    cycle.self = { list: [cycle] };
    const put = (spec) => () =>
      store.putResource({ controller: "jobs", key: "one", spec, initialStatus: 1, now: at(0) });
    refused(store, put(cycle), "JSON is nested too deeply, cyclic or too large");
  });
});
