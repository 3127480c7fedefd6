// One work of the benchmark on LangGraph with its SQLite saver:
//   node bench.mjs WORK N FILE SYNCHRONOUS
// prints {"value": us a step, or bytes a byte}.
import fs from "node:fs";
import { Annotation, Command, END, START, StateGraph, interrupt } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const [work, count, file, synchronous] = process.argv.slice(2);
const n = Number(count);
const text = "x".repeat(200);
const threads = 64;
const checkpoints = 10000;

// Its own defaults, but for synchronous.
function open() {
  const saver = SqliteSaver.fromConnString(file);
  saver.setup();
  saver.db.pragma(`synchronous = ${synchronous}`);
  return saver;
}

const State = Annotation.Root({
  n: Annotation({ reducer: (a, b) => a + b, default: () => 0 }),
  text: Annotation(),
  list: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }),
});

function steps(limit, write, checkpointer) {
  return new StateGraph(State)
    .addNode("work", () => ({ n: 1, ...write }))
    .addEdge(START, "work")
    .addConditionalEdges("work", (s) => (s.n >= limit ? END : "work"))
    .compile({ checkpointer });
}

const config = (id, limit) => ({ configurable: { thread_id: id }, recursionLimit: limit + 10 });
const each = (began, times) => Number(process.hrtime.bigint() - began) / 1000 / times;
const now = () => process.hrtime.bigint();

const works = {
  async steps() {
    const app = steps(n, { text }, open());
    const began = now();
    await app.invoke({}, config("t", n));
    return each(began, n);
  },
  async size() {
    const saver = open();
    await steps(n, { list: [text] }, saver).invoke({}, config("t", n));
    saver.db.close();
    let bytes = 0;
    for (const f of [file, `${file}-wal`, `${file}-shm`]) if (fs.existsSync(f)) bytes += fs.statSync(f).size;
    return bytes / (n * text.length);
  },
  async threads() {
    const app = steps(n, { text }, open());
    const began = now();
    await Promise.all(Array.from({ length: threads }, (_, i) => app.invoke({}, config(`t${i}`, n))));
    return each(began, n * threads);
  },
  async memory() {
    const app = steps(n, { text });
    const began = now();
    await app.invoke({}, config("t", n));
    return each(began, n);
  },
  async fanout() {
    const graph = new StateGraph(State).addNode("join", () => ({}));
    const workers = ["a", "b", "c", "d", "e"];
    for (const name of workers) graph.addNode(name, () => ({ n: 1 })).addEdge(name, "join");
    graph.addEdge(START, "join").addConditionalEdges("join", (s) => (s.n >= 5 * n ? END : workers));
    const app = graph.compile();
    const began = now();
    await app.invoke({}, config("t", 2 * n + 2));
    return each(began, n);
  },
  async open() {
    let saver = open();
    saver.db.pragma("synchronous = OFF"); // only for making the file
    await steps(checkpoints, { text }, saver).invoke({}, config("t", checkpoints));
    saver.db.close();
    const began = now();
    for (let i = 0; i < n; i++) {
      saver = open();
      const tuple = await saver.getTuple({ configurable: { thread_id: "t" } });
      if (tuple.checkpoint.channel_values.text !== text) throw new Error("the state is not there");
      saver.db.close();
    }
    return each(began, n);
  },
  async turns() {
    const app = new StateGraph(State)
      .addNode("draft", () => ({ text }))
      .addNode("publish", () => {
        interrupt("publish?");
        return { text };
      })
      .addEdge(START, "draft")
      .addEdge("draft", "publish")
      .addEdge("publish", END)
      .compile({ checkpointer: open() });
    const began = now();
    for (let i = 0; i < n; i++) {
      await app.invoke({}, config("t", 10));
      await app.invoke(new Command({ resume: "approve" }), config("t", 10));
    }
    return each(began, n);
  },
};

const value = await works[work]();
process.stdout.write(JSON.stringify({ value }));
