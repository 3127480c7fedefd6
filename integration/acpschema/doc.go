// Package acpschema checks lines of the Agent Client Protocol against its published
// JSON schema, for tests.
//
// The schema has one top-level union in which some branch accepts nearly anything,
// so lines are checked against the definitions of their own method: params by the
// method of the line, results by the method of the request that they answer. And
// the published definitions allow any further member; here a member that is not in
// a definition is an error on the side of the agent, because a misspelt optional
// field would otherwise pass.
//
// The schema comes from the npm package @agentclientprotocol/sdk, which npm ci
// installs from the lock file in integration/clients. It is never committed.
package acpschema
