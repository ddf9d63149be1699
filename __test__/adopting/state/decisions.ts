import type { SqliteConnection, SqliteStatement, StateDatabase } from "@pi-workflows/store";

type DecisionRow = { decisionId: string; runId: string; answerHash: Buffer | null };

/** A module of the host's: its own statements on the shared connection, in its own transactions. */
export class DecisionStore {
  private readonly connection: SqliteConnection;
  private readonly select: SqliteStatement<[string], DecisionRow>;

  constructor(private readonly state: StateDatabase) {
    this.connection = state.connection;
    this.select = this.connection.prepare<[string], DecisionRow>(
      "SELECT decision_id AS decisionId, run_id AS runId, answer_hash AS answerHash FROM decisions WHERE decision_id = ?",
    );
  }

  ask(decisionId: string, runId: string): void {
    this.connection.prepare("INSERT INTO decisions(decision_id, run_id) VALUES (?, ?)").run(decisionId, runId);
  }

  answer(decisionId: string, answer: unknown): boolean {
    return this.connection
      .transaction((value: unknown) => {
        const hash = this.state.putJson(value);
        const { changes } = this.connection
          .prepare<{ hash: Buffer; id: string }>("UPDATE decisions SET answer_hash = @hash WHERE decision_id = @id")
          .run({ hash, id: decisionId });
        return changes === 1;
      })
      .immediate(answer);
  }

  read(decisionId: string): unknown {
    const row = this.select.get(decisionId);
    return row?.answerHash ? this.state.readJson(row.answerHash) : undefined;
  }
}
