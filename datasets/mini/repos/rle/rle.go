// Package rle packs runs of equal letters: "aaab" is "3a1b".
package rle

import (
	"fmt"
	"strings"
)

// Pack gives the packed form of text.
func Pack(text string) string {
	var packed strings.Builder
	letters := []rune(text)
	for start := 0; start < len(letters); {
		end := start
		for end < len(letters) && letters[end] == letters[start] {
			end++
		}
		fmt.Fprintf(&packed, "%d%c", end-start, letters[start])
		start = end
	}
	return packed.String()
}

// Unpack gives the text of a packed form, or an error where it is none.
func Unpack(packed string) (string, error) {
	var text strings.Builder
	letters := []rune(packed)
	if len(letters)%2 != 0 {
		return "", fmt.Errorf("%q has a count without a letter", packed)
	}
	for i := 0; i < len(letters); i += 2 {
		count := int(letters[i] - '0')
		if count < 1 || count > 9 {
			return "", fmt.Errorf("%q is no count", letters[i])
		}
		text.WriteString(strings.Repeat(string(letters[i+1]), count))
	}
	return text.String(), nil
}
