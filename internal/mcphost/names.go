package mcphost

import (
	"fmt"
	"strings"
)

// A tool is called SERVER__TOOL, with letters, digits, _ and - only, because that
// is what models take. No name of a server has "__" or ends with "_", so the first
// "__" is where it ends.
const separator = "__"

// serverName makes the name of a server, unlike those that are taken.
func serverName[T any](name string, taken map[string]T) string {
	name = plain(name)
	for strings.Contains(name, separator) {
		name = strings.ReplaceAll(name, separator, "_")
	}
	if name = strings.Trim(name, "_"); name == "" {
		name = "server"
	}
	return unlike(name, taken)
}

// toolName makes the name of a tool, unlike those that are taken.
func toolName[T any](server, tool string, taken map[string]T) string {
	return unlike(server+separator+plain(tool), taken)
}

func nameOfServer(tool string) string {
	server, _, _ := strings.Cut(tool, separator)
	return server
}

func unlike[T any](name string, taken map[string]T) string {
	unique := name
	for n := 2; ; n++ {
		if _, is := taken[unique]; !is {
			return unique
		}
		unique = fmt.Sprintf("%s_%d", name, n)
	}
}

// plain keeps letters, digits, _ and -, and at most 64 bytes.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}
