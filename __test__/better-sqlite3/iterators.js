"use strict";

const cases = {};

const rows = (db, sql = "SELECT id FROM t ORDER BY id") => db.prepare(sql).iterate();

cases["what an iterator answers"] = (db, attempt) => {
  const iterator = rows(db);
  attempt("itself", () => iterator[Symbol.iterator]() === iterator);
  attempt("next", () => iterator.next());
  attempt("return", () => iterator.return(5));
  attempt("next after it", () => iterator.next());
  attempt("return after it", () => iterator.return(6));
  attempt("throw", () => typeof iterator.throw);
};

cases["an iterator that has ended"] = (db, attempt) => {
  const statement = db.prepare("SELECT id FROM t ORDER BY id");
  const first = statement.iterate();
  attempt("all", () => [...first]);
  attempt("again", () => [...first]);
  const second = statement.iterate();
  attempt("another", () => second.next());
  attempt("the first does not move it", () => first.next());
  attempt("nor end it", () => first.return());
  attempt("another goes on", () => second.next());
  second.return();
};

cases["a statement that iterates"] = (db, attempt) => {
  const statement = db.prepare("SELECT id FROM t");
  attempt("busy before", () => statement.busy);
  const iterator = statement.iterate();
  attempt("busy", () => statement.busy);
  for (const method of ["get", "all", "run", "iterate", "pluck", "raw", "expand", "safeIntegers", "bind"]) {
    attempt(method, () => statement[method]() !== undefined);
  }
  attempt("columns", () => statement.columns().length);
  iterator.return();
  attempt("busy after", () => statement.busy);
  attempt("all after", () => statement.all());
};

cases["a connection while something iterates"] = (db, attempt) => {
  const reader = db.prepare("SELECT count(*) AS n FROM t");
  const writer = db.prepare("INSERT INTO u VALUES (1)");
  const transaction = db.transaction(() => 1);
  const iterator = rows(db);
  attempt("get", () => reader.get());
  attempt("all", () => reader.all());
  attempt("iterate", () => [...reader.iterate()]);
  attempt("run of a reader", () => reader.run());
  attempt("run", () => writer.run());
  attempt("get that writes", () => db.prepare("INSERT INTO u VALUES (2) RETURNING v").get());
  attempt("exec", () => db.exec("SELECT 1"));
  attempt("exec of nothing", () => db.exec(""));
  attempt("pragma", () => db.pragma("encoding"));
  attempt("prepare", () => db.prepare("SELECT 1 AS a").get());
  attempt("prepare nonsense", () => db.prepare("SELEC"));
  for (const kind of ["default", "deferred", "immediate", "exclusive"]) attempt(kind, () => transaction[kind]());
  attempt("close", () => db.close());
  attempt("open", () => db.open);
  attempt("in a transaction", () => db.inTransaction);
  iterator.return();
  attempt("run afterwards", () => writer.run());
};

cases["which refusal comes first"] = (db, attempt) => {
  const iterator = rows(db);
  const writer = db.prepare("INSERT INTO u VALUES (?)");
  attempt("too few parameters", () => writer.run());
  attempt("a wrong parameter", () => writer.run(true));
  attempt("get of a writer", () => writer.get());
  iterator.return();
};

cases["two iterators"] = (db, attempt) => {
  const [one, other] = [rows(db), rows(db)];
  attempt("in turn", () => [one.next(), other.next(), one.next(), other.next()]);
  one.return();
  attempt("exec beside one", () => db.exec("SELECT 1") === db);
  other.return();
  attempt("exec", () => db.exec("SELECT 1") === db);
};

cases["iterators that are left early"] = (db, attempt) => {
  const isFree = () => db.exec("DELETE FROM u") === db;
  attempt("break", () => {
    for (const row of rows(db)) return row;
  });
  attempt("free after break", isFree);
  attempt("throw", () => {
    for (const row of rows(db)) throw new Error(`at ${row.id}`);
  });
  attempt("free after throw", isFree);
  attempt("some of them", () => {
    const [first, second] = rows(db);
    return [first, second];
  });
  attempt("free after that", isFree);
  const unused = rows(db);
  attempt("one that has not begun", isFree);
  attempt("return", () => unused.return());
  attempt("free after that, too", isFree);
};

cases["an iterator that fails"] = (db, attempt) => {
  const statement = db.prepare(
    "SELECT CASE id WHEN 3 THEN abs(-9223372036854775808) ELSE id END AS v FROM t ORDER BY id",
  );
  const iterator = statement.iterate();
  for (const step of [1, 2, 3, 4]) attempt(`step ${step}`, () => iterator.next());
  attempt("busy", () => statement.busy);
  attempt("free", () => db.exec("DELETE FROM u") === db);
};

cases["iterators of what does not read"] = (db, attempt) => {
  attempt("a writer", () => db.prepare("DELETE FROM t").iterate());
  attempt("a writer that returns", () => [...db.prepare("INSERT INTO u VALUES (1), (2) RETURNING v").iterate()]);
  const half = db.prepare("INSERT INTO u VALUES (3), (4) RETURNING v").iterate();
  attempt("its first", () => half.next());
  half.return();
  attempt("all were written", () => db.prepare("SELECT v FROM u ORDER BY v").pluck().all());
};

cases["an iterator that is refused"] = (db, attempt) => {
  const statement = db.prepare("SELECT ? AS a");
  attempt("too few parameters", () => statement.iterate());
  attempt("busy", () => statement.busy);
  attempt("afterwards", () => [...statement.iterate(1)]);
};

cases["a connection that was closed"] = (db, attempt) => {
  const reader = db.prepare("SELECT ? AS a");
  const writer = db.prepare("DELETE FROM u");
  const transaction = db.transaction(() => 1);
  const ended = rows(db);
  attempt("rows", () => [...ended].length);
  attempt("close", () => db.close() === db);
  attempt("close again", () => db.close() === db);
  attempt("next", () => ended.next());
  for (const method of ["get", "all", "run", "iterate", "bind"]) {
    attempt(method, () => reader[method](1));
    attempt(`${method} without its parameter`, () => reader[method]());
  }
  for (const toggle of ["pluck", "raw", "expand", "safeIntegers"]) attempt(toggle, () => reader[toggle]() === reader);
  attempt("columns", () => reader.columns());
  attempt("columns of a writer", () => writer.columns());
  attempt("get of a writer", () => writer.get());
  attempt("run", () => writer.run());
  attempt("run with a parameter too many", () => writer.run(1));
  attempt("properties", () => [reader.source, reader.reader, reader.readonly, reader.busy]);
  attempt("prepare", () => db.prepare("SELECT 1"));
  attempt("prepare no text", () => db.prepare(1));
  attempt("exec", () => db.exec("SELECT 1"));
  attempt("pragma", () => db.pragma("encoding"));
  attempt("transaction", () => transaction());
  attempt("transaction to be", () => typeof db.transaction(() => 1));
  attempt("default safe integers", () => db.defaultSafeIntegers() === db);
  attempt("state", () => [db.open, db.inTransaction, db.readonly]);
};

module.exports = cases;
