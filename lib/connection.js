const { take } = require("./errors");

class SqliteConnection {
  #native;

  /** @param {import("./native").NativeDatabase} native @param {string} name @param {boolean} readonly */
  constructor(native, name, readonly) {
    this.#native = native;
    this.name = name;
    this.readonly = readonly;
  }

  close() {
    take(this.#native.close());
  }
}

module.exports = { SqliteConnection };
