package store

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// The hash chain of a thread. A row's hash is SHA-256 of the hash of the row
// before it and of this row's columns as they are stored, each with its length
// in front, in the order of rowHash. Not in it are
//
//   - id and no, which the insert itself assigns. The number of a thread is
//     bound by the first hash, which begins with the thread's id; that ids grow
//     with seq is for Verify to see;
//   - the payload, of which payload_hash is in it: so a payload may be pruned,
//     redacted or encrypted later and no hash changes. The salt in front of it
//     keeps a short payload that was removed from being guessed by its hash.

const saltSize = 16

// genesis is what the hash of a thread's first row begins with. It binds the
// thread's id: rows cannot be given to another thread.
func genesis(thread string) []byte {
	h := sha256.New()
	h.Write([]byte("holdfast thread\x00"))
	h.Write([]byte(thread))
	return h.Sum(nil)
}

// rowHash computes the hash of a row from that of the row before it.
func rowHash(prev []byte, r *entryRow) []byte {
	// Built in one buffer: one call of the hash for a row is several times
	// faster than one for each column.
	buf := make([]byte, 0, 512)
	buf = appendBytes(buf, prev)
	buf = appendNumber(buf, r.Seq)
	buf = appendNumber(buf, r.Base)
	buf = appendText(buf, r.NS)
	buf = appendText(buf, r.Kind)
	buf = appendText(buf, r.Status)
	buf = appendNumber(buf, r.Turn)
	buf = appendNumber(buf, r.Step)
	buf = appendNumber(buf, r.Parent)
	buf = appendText(buf, r.Tasks)
	buf = appendText(buf, r.Next)
	buf = appendText(buf, r.Actor)
	buf = appendNumber(buf, r.At)
	buf = appendBytes(buf, r.PayloadHash)
	sum := sha256.Sum256(buf)
	return sum[:]
}

func appendNumber(buf []byte, n int64) []byte {
	buf = binary.BigEndian.AppendUint64(buf, 8)
	return binary.BigEndian.AppendUint64(buf, uint64(n))
}

func appendBytes(buf, b []byte) []byte {
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(b)))
	return append(buf, b...)
}

func appendText(buf []byte, s string) []byte {
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(s)))
	return append(buf, s...)
}

// newSalt begins a payload.
func newSalt() []byte {
	buf := make([]byte, saltSize, 512)
	_, _ = rand.Read(buf) // never fails: crypto/rand ends the program instead
	return buf
}

func payloadHash(payload []byte) []byte {
	sum := sha256.Sum256(payload)
	return sum[:]
}

// fits says why a row is not the one that was written after the row with hash
// prev, or nil. The payload is checked if it was read.
func (r *entryRow) fits(prev []byte) error {
	if !bytes.Equal(r.Hash, rowHash(prev, r)) {
		return fmt.Errorf("the hash of the row does not fit its columns and the row before it: a column was changed, or a row is missing or in the wrong place")
	}
	return r.payloadFits()
}

func (r *entryRow) payloadFits() error {
	switch {
	case r.Payload == nil:
		return nil
	case len(r.Payload) < saltSize:
		return fmt.Errorf("payload has %d bytes, fewer than its salt", len(r.Payload))
	case !bytes.Equal(r.PayloadHash, payloadHash(r.Payload)):
		return fmt.Errorf("the payload does not fit its hash")
	}
	return nil
}

// snapshotHash binds a snapshot to the place in the chain that it is of.
func snapshotHash(chain []byte, seq int64) hash.Hash {
	h := sha256.New()
	h.Write([]byte("holdfast snapshot\x00"))
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(seq))
	h.Write(n[:])
	h.Write(chain)
	return h
}
