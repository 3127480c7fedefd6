package acp

import (
	"encoding/json"
	"fmt"
)

// Types of content blocks. The first and the fourth every agent takes, the others
// only where it advertises them.
const (
	ContentText         = "text"
	ContentImage        = "image"
	ContentAudio        = "audio"
	ContentResourceLink = "resource_link"
	ContentResource     = "resource"
)

// ContentBlock is one piece of a message. Type says which fields count.
type ContentBlock struct {
	Type string

	Text string // text

	Data     string // image, audio: base64
	MimeType string // image, audio (required there), resource_link

	URI         string // resource_link, and optional for an image
	Name        string // resource_link
	Title       string // resource_link, optional
	Description string // resource_link, optional
	Size        *int64 // resource_link, optional, in bytes

	Resource *ResourceContents // resource

	Annotations *Annotations
	Meta        Meta
}

// ResourceContents is an embedded file: text, or a blob.
type ResourceContents struct {
	URI      string
	MimeType string
	Text     string
	Blob     string // base64
	IsBlob   bool   // whether Blob counts, which may be empty, or Text
	Meta     Meta
}

// Annotations tell a client how to use a block.
type Annotations struct {
	Audience     []string `json:"audience,omitempty"`
	LastModified string   `json:"lastModified,omitempty"`
	Priority     *float64 `json:"priority,omitempty"`
	Meta         Meta     `json:"_meta,omitempty"`
}

// TextBlock is a text.
func TextBlock(text string) ContentBlock { return ContentBlock{Type: ContentText, Text: text} }

// MarshalJSON implements json.Marshaler. It writes the fields of the type only,
// and the required ones also when they are empty.
func (b ContentBlock) MarshalJSON() ([]byte, error) {
	type common struct {
		Annotations *Annotations `json:"annotations,omitempty"`
		Meta        Meta         `json:"_meta,omitempty"`
	}
	c := common{b.Annotations, b.Meta}
	switch b.Type {
	case ContentText:
		return tagged("type", b.Type, struct {
			Text string `json:"text"`
			common
		}{b.Text, c})
	case ContentImage, ContentAudio:
		uri := b.URI
		if b.Type == ContentAudio {
			uri = "" // audio has none
		}
		return tagged("type", b.Type, struct {
			Data     string `json:"data"`
			MimeType string `json:"mimeType"`
			URI      string `json:"uri,omitempty"`
			common
		}{b.Data, b.MimeType, uri, c})
	case ContentResourceLink:
		return tagged("type", b.Type, struct {
			URI         string `json:"uri"`
			Name        string `json:"name"`
			MimeType    string `json:"mimeType,omitempty"`
			Title       string `json:"title,omitempty"`
			Description string `json:"description,omitempty"`
			Size        *int64 `json:"size,omitempty"`
			common
		}{b.URI, b.Name, b.MimeType, b.Title, b.Description, b.Size, c})
	case ContentResource:
		if b.Resource == nil {
			return nil, fmt.Errorf("content block of type %q without a resource", b.Type)
		}
		return tagged("type", b.Type, struct {
			Resource *ResourceContents `json:"resource"`
			common
		}{b.Resource, c})
	}
	return nil, fmt.Errorf("content block of unknown type %q", b.Type)
}

// MarshalJSON implements json.Marshaler.
func (r ResourceContents) MarshalJSON() ([]byte, error) {
	type common struct {
		URI      string `json:"uri"`
		MimeType string `json:"mimeType,omitempty"`
		Meta     Meta   `json:"_meta,omitempty"`
	}
	c := common{r.URI, r.MimeType, r.Meta}
	if r.IsBlob {
		return json.Marshal(struct {
			common
			Blob string `json:"blob"`
		}{c, r.Blob})
	}
	return json.Marshal(struct {
		common
		Text string `json:"text"`
	}{c, r.Text})
}

// UnmarshalJSON implements json.Unmarshaler, for blocks that were stored.
func (b *ContentBlock) UnmarshalJSON(text []byte) (err error) {
	*b, err = parseWhole(text, "content", parseContentBlock)
	return err
}

func parseContentBlock(text json.RawMessage, path string) (v ContentBlock, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.Type = required(o, "type", oneOf(ContentText, ContentImage, ContentAudio, ContentResourceLink, ContentResource))
	switch v.Type {
	case ContentText:
		v.Text = required(o, "text", asString)
	case ContentImage:
		v.Data = required(o, "data", asString)
		v.MimeType = required(o, "mimeType", asString)
		v.URI = optional(o, "uri", asString)
	case ContentAudio:
		v.Data = required(o, "data", asString)
		v.MimeType = required(o, "mimeType", asString)
	case ContentResourceLink:
		v.URI = required(o, "uri", asString)
		v.Name = required(o, "name", asString)
		v.MimeType = optional(o, "mimeType", asString)
		v.Title = optional(o, "title", asString)
		v.Description = optional(o, "description", asString)
		v.Size = optional(o, "size", pointer(asInt64))
	case ContentResource:
		v.Resource = required(o, "resource", pointer(parseResourceContents))
	}
	v.Annotations = optional(o, "annotations", pointer(parseAnnotations))
	v.Meta = optional(o, "_meta", asMeta)
	return v, o.err
}

func parseResourceContents(text json.RawMessage, path string) (v ResourceContents, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.URI = required(o, "uri", asString)
	_, hasText := o.members["text"]
	if _, v.IsBlob = o.members["blob"]; v.IsBlob && !hasText {
		v.Blob = required(o, "blob", asString)
	} else {
		v.IsBlob = false
		v.Text = required(o, "text", asString)
	}
	v.MimeType = optional(o, "mimeType", asString)
	v.Meta = optional(o, "_meta", asMeta)
	return v, o.err
}

func parseAnnotations(text json.RawMessage, path string) (v Annotations, err error) {
	o, err := parseObject(text, path)
	if err != nil {
		return v, err
	}
	v.Audience = optional(o, "audience", listOf(oneOf("assistant", "user"), true))
	v.LastModified = optional(o, "lastModified", asString)
	v.Priority = optional(o, "priority", pointer(asFloat))
	v.Meta = optional(o, "_meta", asMeta)
	return v, nil
}
