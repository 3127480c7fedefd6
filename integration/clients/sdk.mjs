// A client of the TypeScript SDK. Its arguments are the agent's command line; what it
// is to do comes as JSON in the environment variable STEPS, and what came of each step
// goes to stdout, one JSON value a line.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const agent = spawn(process.argv[2], process.argv.slice(3), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const { agent: agentMethods, client: clientMethods } = acp.methods;

let option = "approve";
let asked = () => {};
let updates = [];

await acp
  .client({ name: "sdk-test" })
  .onRequest(clientMethods.session.requestPermission, async ({ params, signal }) => {
    asked(params);
    if (option === "never") {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return { outcome: { outcome: "cancelled" } };
    }
    return { outcome: { outcome: "selected", optionId: option } };
  })
  .onNotification(clientMethods.session.update, ({ params }) => {
    updates.push(params.update);
  })
  .connectWith(stream, async (ctx) => {
    await ctx.request(agentMethods.initialize, { protocolVersion: 1, clientCapabilities: {} });
    let sessionId;
    for (const step of JSON.parse(process.env.STEPS)) {
      updates = [];
      let result;
      switch (step.do) {
        case "new":
          result = await ctx.request(agentMethods.session.new, { cwd: step.cwd, mcpServers: [] });
          sessionId = result.sessionId;
          break;
        case "load":
          sessionId = step.session ?? sessionId;
          result = await ctx.request(agentMethods.session.load, { sessionId, cwd: step.cwd, mcpServers: [] });
          break;
        case "prompt": {
          option = step.option;
          const open = new Promise((resolve) => (asked = resolve));
          const response = ctx.request(agentMethods.session.prompt, { sessionId, prompt: [{ type: "text", text: step.text }] });
          if (step.option === "never") {
            await open;
            await ctx.notify(agentMethods.session.cancel, { sessionId });
          }
          result = await response;
          break;
        }
      }
      console.log(JSON.stringify({ result, updates }));
    }
  });
agent.stdin.end();
process.exitCode = await new Promise((resolve) => agent.once("exit", (code) => resolve(code ?? 99)));
