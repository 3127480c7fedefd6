package model

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// secrets are the environment variables that files named for keys, in this
// process.
var secrets struct {
	sync.Mutex
	names []string
}

// KeepSecret notes that an environment variable holds a key: its value is left
// out of everything that Hide is given.
func KeepSecret(env string) {
	secrets.Lock()
	defer secrets.Unlock()
	if env != "" && !slices.Contains(secrets.names, env) {
		secrets.names = append(secrets.names, env)
	}
}

// Secrets are the variables of KeepSecret.
func Secrets() []string {
	secrets.Lock()
	defer secrets.Unlock()
	return slices.Clone(secrets.names)
}

// shortest is how long a value must be to be taken for a key: a short one, such
// as "none" for a server that wants none, may stand anywhere.
const shortest = 8

// Hide replaces the keys in a text that will be stored or shown.
func Hide(text string) string {
	for _, env := range Secrets() {
		if key := strings.TrimSpace(os.Getenv(env)); len(key) >= shortest {
			text = strings.ReplaceAll(text, key, "[the value of "+env+"]")
		}
	}
	return text
}

// Key reads a key from its environment variable; an empty name is no key.
func Key(env string) (string, error) {
	if env == "" {
		return "", nil
	}
	KeepSecret(env)
	key := strings.TrimSpace(os.Getenv(env))
	if key == "" {
		return "", fmt.Errorf("the environment variable %s, which should hold the API key, is not set", env)
	}
	return key, nil
}
