package test

import (
	"testing"

	"example.com/rle"
)

func TestPack(t *testing.T) {
	for text, packed := range map[string]string{"": "", "aaab": "3a1b", "\u00e5\u00e5": "2\u00e5"} {
		if got := rle.Pack(text); got != packed {
			t.Errorf("Pack(%q) is %q, not %q", text, got, packed)
		}
	}
}

func TestUnpack(t *testing.T) {
	for _, c := range []struct{ name, packed, text string }{
		{"empty", "", ""},
		{"runs", "3a1b", "aaab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rle.Unpack(c.packed)
			if err != nil || got != c.text {
				t.Errorf("Unpack(%q) is %q, %v", c.packed, got, err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, packed := range []string{"3", "a", "0a", "ab"} {
		if got, err := rle.Unpack(packed); err == nil {
			t.Errorf("Unpack(%q) is %q", packed, got)
		}
	}
}

func TestHuge(t *testing.T) {
	t.Skip("takes a while")
}
