package acp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-agent/holdfast/acp"
	"github.com/holdfast-agent/holdfast/engine"
	"github.com/holdfast-agent/holdfast/integration/editor"
)

func promptOf(s string, blocks ...any) editor.Object {
	return editor.Object{"sessionId": s, "prompt": blocks}
}

var (
	anImage = editor.Object{"type": "image", "data": "AQID", "mimeType": "image/png", "uri": "file:///a.png"}
	aSound  = editor.Object{"type": "audio", "data": "AQID", "mimeType": "audio/wav"}
	aText   = editor.Object{"type": "text", "text": "what is this?"}
	aLink   = editor.Object{"type": "resource_link", "uri": "file:///b", "name": "b"}
	aFile   = editor.Object{"type": "resource", "resource": editor.Object{"uri": "file:///c", "text": "inside", "mimeType": "text/plain"}}
	aBlob   = editor.Object{"type": "resource", "resource": editor.Object{"uri": "file:///d", "blob": "AQID"}}
)

// looking declares the channel for whole prompts.
func looking() *engine.Graph {
	return engine.MustCompile(engine.Definition{
		Name: "looking", Channels: channels("_acp_prompt"),
		Nodes: map[string]engine.Node{"say": {Run: echo}}, Edges: []engine.Edge{{From: engine.Start, To: "say"}},
	})
}

func advertised(c *visitor) any {
	return c.Call("initialize", editor.Object{"protocolVersion": 1})["agentCapabilities"].(map[string]any)["promptCapabilities"]
}

func TestAGraphWithAChannelForPromptsTakesImagesAndAudio(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, looking())
	c := d.client(nil)
	require.Equal(t, map[string]any{"image": true, "audio": true, "embeddedContext": true}, advertised(c))
	s := c.NewSession()
	blocks := []any{aText, anImage, aSound, aLink, aFile, aBlob}
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, blocks...))["stopReason"])
	require.Equal(t, editor.JSON(t, blocks), editor.JSON(t, d.channel(s, "_acp_prompt")))
	require.Equal(t, "what is this? [b](file:///b) inside [d](file:///d)", d.channel(s, "prompt"))

	var told []any
	for _, m := range c.Load(s) {
		if m.Is("user_message_chunk") {
			told = append(told, m.Update()["content"])
		}
	}
	require.Equal(t, editor.JSON(t, blocks), editor.JSON(t, told), "a replay shows all of it")

	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, anImage))["stopReason"], "without a text")
	for field, bad := range map[string]any{
		"params.prompt[0].data":          editor.Object{"type": "image", "data": "not base64!", "mimeType": "image/png"},
		"params.prompt[0].resource.blob": editor.Object{"type": "resource", "resource": editor.Object{"uri": "file:///d", "blob": "A"}},
		"params.prompt[0].mimeType":      editor.Object{"type": "audio", "data": "AQID"},
		"params.prompt[0].type":          editor.Object{"type": "video", "data": "AQID"},
	} {
		e := c.Refused("session/prompt", promptOf(s, bad))
		require.Equal(t, -32602, e.Code)
		require.Equal(t, field, e.Data["field"])
	}
	large := editor.Object{"type": "image", "data": strings.Repeat("AQID", 300_000), "mimeType": "image/png"}
	require.Contains(t, c.Refused("session/prompt", promptOf(s, large)).Message, "_acp_prompt")
}

func TestOnlyAGraphThatTakesThemGetsImages(t *testing.T) {
	t.Parallel()
	d := newDesk(t, acp.Adapter{}, single("plain", echo), looking())
	c := d.client(nil)
	require.Equal(t, map[string]any{"image": true, "audio": true, "embeddedContext": true}, advertised(c), "one of them does")
	s := c.NewSession()
	e := c.Refused("session/prompt", promptOf(s, aText, anImage))
	require.Equal(t, -32602, e.Code)
	require.Equal(t, `params.prompt[1].type "image" is not supported by graph plain`, e.Message)
	c.Call("session/set_config_option", editor.Object{"sessionId": s, "configId": "graph", "value": "looking"})
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, aText, anImage))["stopReason"])

	d = newDesk(t, acp.Adapter{Image: true}, single("plain", echo))
	c = d.client(nil)
	require.Equal(t, map[string]any{"image": true, "audio": false, "embeddedContext": true}, advertised(c))
	s = c.NewSession()
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, aText, anImage))["stopReason"])
	require.Equal(t, -32602, c.Refused("session/prompt", promptOf(s, aSound)).Code)
}

func TestALargeImageNeedsAGraphThatAllowsIt(t *testing.T) {
	t.Parallel()
	image := func(size int) editor.Object {
		return editor.Object{"type": "image", "data": strings.Repeat("AQID", size/4), "mimeType": "image/png"}
	}
	d := newDesk(t, acp.Adapter{}, looking())
	c := d.client(nil)
	s := c.NewSession()
	e := c.Refused("session/prompt", promptOf(s, aText, image(3<<20)))
	require.Contains(t, e.Message, "channel _acp_prompt: the written value has 3145")
	require.Contains(t, e.Message, "raise limits.value of graph looking", "what to do")
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, aText, anImage))["stopReason"], "the session is well")

	graph := engine.MustCompile(engine.Definition{
		Name: "looking", Channels: channels("_acp_prompt"), Limits: engine.Limits{Value: 16 << 20},
		Nodes: map[string]engine.Node{"say": {Run: echo}}, Edges: []engine.Edge{{From: engine.Start, To: "say"}},
	})
	d = newDesk(t, acp.Adapter{}, graph)
	c = d.client(nil)
	s = c.NewSession()
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, aText, image(3<<20)))["stopReason"])
	require.Equal(t, "end_turn", c.Call("session/prompt", promptOf(s, aText, image(11<<20)))["stopReason"])
	var told []string
	for _, m := range c.Load(s) {
		if m.Is("user_message_chunk") {
			content := m.Update()["content"].(map[string]any)
			data, _ := content["data"].(string)
			told = append(told, fmt.Sprint(content["type"], " ", content["text"], " ", len(data)))
		}
	}
	require.Equal(t, []string{
		"text what is this? 0", fmt.Sprint("image <nil> ", 3<<20),
		"text what is this? 0", "text (image image/png: it is too large to be shown again) 0",
	}, told, "no client gets a line of more than 10 MiB")
}
