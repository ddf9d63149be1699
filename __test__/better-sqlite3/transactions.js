"use strict";

const cases = {};
const KINDS = ["default", "deferred", "immediate", "exclusive"];

const inserted = (db) => db.prepare("SELECT v FROM u ORDER BY v").pluck().all();

cases["what transaction gives"] = (db, attempt) => {
  const transaction = db.transaction((...parameters) => parameters.length);
  attempt("kinds", () => KINDS.map((kind) => typeof transaction[kind]));
  attempt("each has each", () => transaction.immediate.exclusive === transaction.exclusive);
  attempt("default is itself", () => transaction.default === transaction);
  attempt("database", () => [transaction.database === db, transaction.immediate.database === db]);
  attempt("keys", () => Object.keys(transaction));
  attempt("parameters", () => transaction(1, 2, 3));
  const named = db.transaction(function self() {
    return this;
  });
  const object = { named };
  attempt("this", () => object.named() === object);
};

for (const kind of KINDS) {
  cases[`${kind} commits and rolls back`] = (db, attempt) => {
    const insert = db.prepare("INSERT INTO u VALUES (?)");
    const transaction = db.transaction((...values) => {
      for (const value of values) insert.run(value);
      return db.inTransaction;
    })[kind];
    attempt("commit", () => transaction(1));
    attempt("roll back", () => transaction(2, 1));
    attempt("in a transaction", () => db.inTransaction);
    attempt("values", () => inserted(db));
  };
}

cases["promises are refused"] = (db, attempt) => {
  const insert = (value) => db.prepare("INSERT INTO u VALUES (1)").run() && value;
  // biome-ignore lint/suspicious/noThenProperty: what is tested
  attempt("thenable", () => db.transaction(() => insert({ then() {} }))());
  // biome-ignore lint/suspicious/noThenProperty: what is tested
  attempt("then that is none", () => db.transaction(() => ({ then: 1 }))());
  attempt("then that throws", () =>
    db.transaction(() =>
      insert({
        // biome-ignore lint/suspicious/noThenProperty: what is tested
        get then() {
          throw new Error("mine");
        },
      }),
    )(),
  );
  attempt("values", () => inserted(db));
  attempt("in a transaction", () => db.inTransaction);
};

cases["a throw comes through as it is"] = (db, attempt) => {
  for (const thrown of [undefined, null, 0, "text"]) {
    attempt(String(thrown), () => {
      try {
        db.transaction(() => {
          throw thrown;
        })();
      } catch (error) {
        return [error, db.inTransaction];
      }
    });
  }
};

cases["nested ones are savepoints"] = (db, attempt) => {
  const insert = db.prepare("INSERT INTO u VALUES (?)");
  const inner = db.transaction((value, fails) => {
    insert.run(value);
    if (fails) throw new Error("inner");
  });
  attempt("caught", () =>
    db.transaction(() => {
      inner(1);
      try {
        inner(2, true);
      } catch {}
      inner.exclusive(3);
      insert.run(4);
    })(),
  );
  attempt("values", () => inserted(db));
  attempt("not caught", () =>
    db.transaction(() => {
      inner(5);
      inner(6, true);
    })(),
  );
  attempt("the same values", () => inserted(db));
};

cases["a commit that fails"] = (db, attempt) => {
  const orphan = () => db.exec("INSERT INTO c(t) VALUES (99)");
  attempt("outer", () => db.transaction(orphan)());
  attempt("in a transaction", () => db.inTransaction);
  attempt("rows", () => db.prepare("SELECT count(*) AS n FROM c").get());
  attempt("nested, which is checked later", () => db.transaction(() => db.transaction(orphan)())());
};

cases["SQLite rolls back by itself"] = (db, attempt) => {
  db.exec("INSERT INTO u VALUES (1)");
  const conflict = () => db.exec("INSERT OR ROLLBACK INTO u VALUES (1)");
  attempt("not caught", () => db.transaction(conflict)());
  attempt("caught", () =>
    db.transaction(() => {
      try {
        conflict();
      } catch {}
      return "went on";
    })(),
  );
  attempt("nested", () =>
    db.transaction(() => {
      try {
        db.transaction(conflict)();
      } catch (error) {
        return error.message;
      }
    })(),
  );
  attempt("in a transaction", () => db.inTransaction);
};

cases["a function that ends its transaction itself"] = (db, attempt) => {
  attempt("commit", () => db.transaction(() => db.exec("INSERT INTO u VALUES (1); COMMIT"))());
  attempt("roll back", () => db.transaction(() => db.exec("INSERT INTO u VALUES (2); ROLLBACK"))());
  attempt("values", () => inserted(db));
  attempt("close", () => db.transaction(() => db.close())());
  attempt("open", () => db.open);
};

cases["transactions by hand"] = (db, attempt) => {
  db.exec("BEGIN");
  attempt("in a transaction", () => db.inTransaction);
  attempt("begin again", () => db.exec("BEGIN"));
  attempt("a function that throws", () =>
    db.transaction(() => {
      db.exec("INSERT INTO u VALUES (1)");
      throw new Error("mine");
    })(),
  );
  attempt("still", () => db.inTransaction);
  db.exec("COMMIT");
  attempt("values", () => inserted(db));
  attempt("roll back nothing", () => db.exec("ROLLBACK"));
};

module.exports = cases;
