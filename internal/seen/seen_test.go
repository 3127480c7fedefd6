package seen

import "testing"

func TestWhatCannotBeSeenIsHiddenAndWrittenUnambiguously(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]string{
		'\n': `\n`, '\r': `\r`, '\t': `\t`, 0x1b: `\x1b`, 0x7f: `\x7f`, 0x9b: `\u009b`,
		0xa0: `\u00a0`, 0xad: `\u00ad`, 0x200b: `\u200b`, 0x202e: `\u202e`, 0x2066: `\u2066`, 0x2800: `\u2800`,
		0xfe0f: `\ufe0f`, 0xfeff: `\ufeff`, 0x3164: `\u3164`, 0x1d159: `\U0001d159`, 0xe0041: `\U000e0041`,
	} {
		if !Hidden(r) {
			t.Errorf("%U is not hidden", r)
		}
		if got := Escape(r); got != want {
			t.Errorf("%U is written %s, not %s", r, got, want)
		}
	}
	for _, r := range "aZ9 ~é漢😀\uFFFD" {
		if Hidden(r) {
			t.Errorf("%U is hidden", r)
		}
	}
}
