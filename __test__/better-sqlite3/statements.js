"use strict";

const cases = {};

const texts = [
  "",
  " ",
  ";",
  ";;",
  "-- nothing",
  "/* nothing */",
  "/* nothing",
  "SELECT 1;",
  "SELECT 1 -- and nothing",
  "SELECT 1 /* and nothing",
  "SELECT 1; -- and nothing\n ; ",
  "SELECT 1;;",
  "SELECT 1; SELECT 2",
  "SELECT 1; nonsense",
  "SELECT 1; \u00a0",
  "SELECT 1; -",
  "SELECT 1; /",
  "\ufeffSELECT 1",
  "SELECT 1\0nonsense",
  "\0",
  ";SELECT 1",
  "SELECT 'open",
  "BEGIN; SELECT 1",
  "SELEC",
  "SELECT",
  "SELECT * FROM nowhere",
  "SELECT nothing FROM t",
  'SELECT "nothing" AS a',
  "VALUES (1), (2)",
  "PRAGMA user_version = 3",
  "INSERT INTO u VALUES (1) RETURNING v",
  "CREATE TABLE IF NOT EXISTS t(x)",
];

for (const sql of texts) {
  cases[`the text ${JSON.stringify(sql)}`] = (db, attempt) => {
    attempt("prepare", () => {
      const { source, reader, readonly, busy, database } = db.prepare(sql);
      return { source, reader, readonly, busy, database: database === db };
    });
    attempt("get", () => db.prepare(sql).get());
    attempt("exec", () => db.exec(sql) === db);
    attempt("run", () => db.prepare(sql).run());
    attempt("columns", () => db.prepare(sql).columns());
  };
}

const shaped = [
  "SELECT * FROM t",
  "SELECT 1 AS x, 2 AS x",
  "SELECT t.id, c.id, 1 AS one FROM t LEFT JOIN c ON 0",
  "SELECT 1 AS __proto__",
  'SELECT 1 AS "0", 2 AS b, 3 AS "1"',
  "SELECT 1 AS constructor",
  'SELECT 1 AS ""',
  "SELECT CAST(x'4100' AS TEXT) AS with_nul",
  "SELECT 9223372036854775807 AS largest, -9223372036854775808 AS smallest, 1e400 AS infinite, -0.0 AS zero",
  "SELECT zeroblob(0) AS none, x'' AS empty, zeroblob(3) AS three",
  "SELECT count(*) FROM t",
];

for (const sql of shaped) {
  for (const shape of ["row", "pluck", "raw", "expand"]) {
    cases[`${shape} of ${sql}`] = (db, attempt) => {
      const statement = db.prepare(sql);
      if (shape !== "row") statement[shape]();
      attempt("get", () => statement.get());
      attempt("all", () => statement.all());
      attempt("iterate", () => [...statement.iterate()]);
      attempt("safe integers", () => statement.safeIntegers().all());
      attempt("columns", () => statement.columns());
    };
  }
}

cases["toggles exclude each other"] = (db, attempt) => {
  const statement = db.prepare("SELECT id, name FROM t");
  const steps = [
    ["pluck"],
    ["raw"],
    ["pluck", false],
    ["raw", false],
    ["expand"],
    ["raw"],
    ["expand", false],
    ["pluck"],
    ["pluck", false],
  ];
  for (const [shape, ...on] of steps) attempt(`${shape} ${on}`, () => statement[shape](...on).get());
};

cases["toggles want a boolean and a reader"] = (db, attempt) => {
  for (const toggle of ["pluck", "raw", "expand", "safeIntegers"]) {
    for (const wrong of [undefined, null, 1, "true"]) {
      attempt(`${toggle} ${wrong}`, () => db.prepare("SELECT 1 AS a")[toggle](wrong).get());
    }
    attempt(`${toggle} of a writer`, () => db.prepare("DELETE FROM t")[toggle]() !== undefined);
    attempt(`${toggle} of a writer, wrong`, () => db.prepare("DELETE FROM t")[toggle](1) !== undefined);
  }
  attempt("columns of a writer", () => db.prepare("DELETE FROM t").columns());
  for (const wrong of [undefined, null, 1]) attempt(`default ${wrong}`, () => db.defaultSafeIntegers(wrong) === db);
};

cases["default safe integers"] = (db, attempt) => {
  const before = db.prepare("SELECT 1 AS a");
  db.defaultSafeIntegers();
  const after = db.prepare("SELECT 1 AS a");
  attempt("before", () => before.get());
  attempt("after", () => after.get());
  attempt("off again for one", () => after.safeIntegers(false).get());
  attempt("run", () => db.prepare("INSERT INTO u VALUES (1)").run());
  attempt("off again for all", () => db.defaultSafeIntegers(false).prepare("SELECT 2 AS a").get());
};

cases["a table that changes its columns"] = (db, attempt) => {
  const statement = db.prepare("SELECT * FROM t");
  attempt("before", () => statement.get());
  db.exec("ALTER TABLE t ADD COLUMN one DEFAULT 'e'");
  attempt("get", () => statement.get());
  db.exec("ALTER TABLE t ADD COLUMN two DEFAULT 'f'");
  attempt("all", () => statement.all());
  db.exec("ALTER TABLE t ADD COLUMN three DEFAULT 'g'");
  attempt("raw", () => statement.raw().all());
  db.exec("ALTER TABLE t DROP COLUMN n");
  attempt("iterate", () => [...statement.raw(false).iterate()]);
  db.exec("ALTER TABLE t RENAME COLUMN name TO title");
  attempt("expand", () => statement.expand().get());
  attempt("columns", () => statement.columns().map(({ name }) => name));
};

cases["a table that goes"] = (db, attempt) => {
  const statement = db.prepare("SELECT * FROM u");
  statement.all();
  db.exec("DROP TABLE u");
  for (const method of ["get", "all", "run"]) attempt(method, () => statement[method]());
  attempt("iterate", () => [...statement.iterate()]);
  attempt("busy", () => statement.busy);
  db.exec("CREATE TABLE u(w)");
  attempt("back again", () => statement.all());
};

cases["what run gives"] = (db, attempt) => {
  for (const sql of [
    "INSERT INTO u VALUES (1), (2), (3)",
    "SELECT 1",
    "UPDATE u SET v = v WHERE 0",
    "CREATE TABLE z(a)",
    "DELETE FROM u",
    "INSERT INTO t(id) VALUES (9007199254740993)",
    "INSERT INTO u VALUES (7), (8) RETURNING v",
    "BEGIN",
    "COMMIT",
    "PRAGMA user_version = 7",
    "REPLACE INTO u VALUES (7)",
    "INSERT OR IGNORE INTO u VALUES (7)",
  ]) {
    attempt(sql, () => db.prepare(sql).run());
  }
  attempt("get of two rows", () => db.prepare("INSERT INTO u VALUES (17), (18) RETURNING v").get());
  attempt("both are there", () => db.prepare("SELECT v FROM u ORDER BY v").pluck().all());
};

cases["changes do not count those of triggers"] = (db, attempt) => {
  db.exec("CREATE TABLE log(x); CREATE TRIGGER two AFTER INSERT ON u BEGIN INSERT INTO log VALUES (1), (2); END");
  attempt("run", () => db.prepare("INSERT INTO u VALUES (1)").run());
};

const failing = [
  "INSERT INTO u VALUES (1), (1)",
  "INSERT INTO t(id) VALUES (1)",
  "INSERT INTO c(t) VALUES (99)",
  "INSERT INTO t(id) VALUES ('x')",
  "SELECT abs(-9223372036854775808)",
  "SELECT json('{')",
  "SELECT nothing(1)",
  "SELECT abs()",
  "SELECT zeroblob(3000000000)",
  "SELECT 'a' LIKE 'b' ESCAPE 'xx'",
  "SELECT CASE id WHEN 3 THEN abs(-9223372036854775808) ELSE id END AS v FROM t ORDER BY id",
];

for (const sql of failing) {
  cases[`the error of ${sql}`] = (db, attempt) => {
    attempt("exec", () => db.exec(sql) === db);
    for (const method of ["run", "get", "all"]) attempt(method, () => db.prepare(sql)[method]());
    attempt("iterate", () => {
      const seen = [];
      try {
        for (const row of db.prepare(sql).iterate()) seen.push(row);
      } catch (error) {
        seen.push(error.message, error.code);
      }
      return seen;
    });
    attempt("in a transaction", () => db.inTransaction);
    attempt("afterwards", () => db.prepare("SELECT 1 AS works").get());
  };
}

cases["a script stops at its first error"] = (db, attempt) => {
  attempt("exec", () =>
    db.exec("INSERT INTO u VALUES (1); INSERT INTO u VALUES (2); INSERT INTO u VALUES (1); INSERT INTO u VALUES (3)"),
  );
  attempt("what it did", () => db.prepare("SELECT v FROM u").pluck().all());
};

const pragmas = [
  "user_version = 4",
  "table_info(t)",
  "table_info(nowhere)",
  "nothing",
  "synchronous = OFF",
  "",
  "encoding",
];

for (const pragma of pragmas) {
  cases[`PRAGMA ${pragma}`] = (db, attempt) => {
    attempt("rows", () => db.pragma(pragma));
    attempt("simple", () => db.pragma(pragma, { simple: true }));
    attempt("not simple", () => db.pragma(pragma, { simple: false }));
  };
}

cases["pragma's arguments"] = (db, attempt) => {
  attempt("none", () => db.pragma());
  attempt("two statements", () => db.pragma("encoding; SELECT 1"));
  for (const options of [null, undefined, {}, [], 1, "simple", true]) {
    attempt(`options ${JSON.stringify(options)}`, () => db.pragma("encoding", options));
  }
  for (const simple of [undefined, null, 1]) attempt(`simple ${simple}`, () => db.pragma("encoding", { simple }));
};

cases["arguments that are no text"] = (db, attempt) => {
  for (const wrong of [undefined, null, 1, {}, Symbol.iterator]) {
    for (const method of ["prepare", "exec", "pragma", "transaction"]) {
      attempt(`${method} ${String(wrong)}`, () => db[method](wrong));
    }
  }
};

cases["another database beside"] = (db, attempt) => {
  attempt("attach", () => db.exec("ATTACH ':memory:' AS other") === db);
  attempt("create", () => db.prepare("CREATE TABLE other.z(a)").run().changes);
  attempt("columns", () => db.prepare("SELECT a FROM other.z").columns());
};

module.exports = cases;
