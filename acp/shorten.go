package acp

// shortened gives an update as it is, and then shorter forms of it, for a line
// that would be longer than clients read: without the raw values, and then with
// less of what it shows. Texts of messages are split where they are made.
func shortened(u SessionUpdate) []SessionUpdate {
	forms := []SessionUpdate{u}
	switch c := u.(type) {
	case ToolCall:
		for _, f := range shortCalls(c.Update()) {
			forms = append(forms, ToolCall(f))
		}
	case ToolCallUpdate:
		for _, f := range shortCalls(c) {
			forms = append(forms, f)
		}
	}
	return forms
}

func shortCalls(c ToolCallUpdate) []ToolCallUpdate {
	raw := c
	raw.RawInput, raw.RawOutput = nil, nil
	bare := raw
	bare.Meta = nil
	brief := bare
	brief.Content = nil
	for _, item := range c.Content {
		if item.Type == ToolContentBlock && item.Content.Type == ContentText {
			item.Content.Text = cut(item.Content.Text)
		}
		if item.Type != ToolContentDiff {
			brief.Content = append(brief.Content, item)
		}
	}
	return []ToolCallUpdate{raw, bare, brief}
}
