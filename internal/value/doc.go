// Package value holds the rules for channel values: what a graph's state is
// made of in memory, and how it looks as JSON in the file.
//
// A normalized value is one of
//
//	nil, bool, int64, float64, string, []any, map[string]any
//
// all the way down. [Normalize] makes one from any Go value, [Append] writes it
// as canonical JSON, [Decode] reads it back. These rules hold:
//
//   - A node sees the same value live and reloaded:
//     Decode(Append(nil, v)) is identical to v for every normalized v.
//   - Everything that Normalize and Decode return is normalized, and
//     normalizing it again changes nothing.
//   - One number has one form. A number written without fraction and exponent
//     that fits an int64 is an int64. Every other is the nearest float64, and
//     if the shortest decimal form of that float64 is in turn an integer that
//     fits, it is an int64 after all: 1.0, 1e0 and 1 are all int64 1, -0.0 is
//     int64 0. So a normalized tree never holds a float64 that reads back as
//     an int64. Above 2^53 the shortest decimal form decides, as it does in
//     every JSON encoder: float64(1<<62) is int64 4611686018427388000.
//   - NaN, infinities and numbers too large for a float64 are errors.
//   - Strings and keys are valid UTF-8. Each invalid byte, and each lone
//     surrogate, is replaced by U+FFFD, and the caller is told.
//   - Canonical JSON has its keys sorted by bytes, no spaces, no HTML escaping.
//     Equal values give equal bytes, so that bytes can be hashed.
//   - A normalized value is shared and read-only. Normalize copies what it is
//     given; nobody changes what it returned.
package value

// MaxDepth is how deep lists and objects may be nested in a value that
// [Normalize] accepts. A cycle ends there too. [Decode] reads twice that depth:
// a stored row wraps the values that were written in a few levels of its own,
// and what was accepted once must always be readable.
const MaxDepth = 512

const maxDecodeDepth = 2 * MaxDepth
