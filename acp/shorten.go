package acp

// shortened gives an update as it is, and then shorter forms of it, for a line
// that would be longer than clients read: without the raw values, and then with
// less of what it shows. Texts of messages are split where they are made; of an
// image, a sound or a file of the person a word is left.
func shortened(u SessionUpdate) []SessionUpdate {
	forms := []SessionUpdate{u}
	switch c := u.(type) {
	case ToolCall:
		for _, f := range shortCalls(c.Update()) {
			forms = append(forms, ToolCall(f))
		}
	case UserMessageChunk:
		c.Content = TextBlock(left(c.Content))
		forms = append(forms, c)
	case ToolCallUpdate:
		for _, f := range shortCalls(c) {
			forms = append(forms, f)
		}
	}
	return forms
}

// left says what is not shown again.
func left(b ContentBlock) string {
	what, kind, name := string(b.Type), b.MimeType, b.URI
	if b.Resource != nil {
		kind, name = b.Resource.MimeType, b.Resource.URI
	}
	for _, more := range []string{kind, name} {
		if more != "" {
			what += " " + oneLine(more, 200)
		}
	}
	return "(" + what + ": it is too large to be shown again)"
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
