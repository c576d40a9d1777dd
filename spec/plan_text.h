/* plan_text.h: print a memory plan as a text plan (spec/text-plan.md), for verify-plan to judge. spec: FP10.1 to FP10.4
 *
 * One header, C99 or C++11, nothing allocated, no state but the struct. Declare arenas, tensors and steps by calls;
 * steps in execution order, all else in any order. Names are any bytes but an empty string: they are written as JSON
 * strings. See printing-a-plan.md beside this file. */
#ifndef TMMU_PLAN_TEXT_H
#define TMMU_PLAN_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *out;
    int errors; /* statements that a text cannot hold, and failed writes */
} tmmu_plan;

/* What a tensor is to the caller, and what the plan keeps. */
enum {
    TMMU_INPUT = 1, TMMU_OUTPUT = 2, TMMU_PARAMETER = 4, TMMU_OPTIMIZER = 8,
    TMMU_GRADIENT = 16, TMMU_SCRATCH = 32, TMMU_SAVED = 64, TMMU_DONATED = 128
};
/* Bodies of a node: whether they may run again, whether exactly one of them runs. */
enum { TMMU_ONCE = 0, TMMU_LOOP = 1, TMMU_EXCLUSIVE = 2 };

/* A list of names that ends with a null pointer; a null pointer alone is the empty list. */
typedef const char *const *tmmu_names;
#define TMMU_NAMES(...) ((const char *const[]){__VA_ARGS__, 0})

static inline void tmmu_put(tmmu_plan *plan, const char *text) {
    if (fputs(text, plan->out) < 0) plan->errors++;
}

static inline void tmmu_number(tmmu_plan *plan, uint64_t value) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    digits[--at] = ' ';
    tmmu_put(plan, digits + at);
}

/* How many bytes of UTF-8 begin here; 0 where none do. */
static inline size_t tmmu_utf8(const unsigned char *s) {
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xC2 && s[0] < 0xE0 ? 2 : (s[0] & 0xF0) == 0xE0 ? 3 : s[0] >= 0xF0 && s[0] < 0xF5 ? 4 : 0;
    size_t k;
    for (k = 1; k < n; k++)
        if ((s[k] & 0xC0) != 0x80) return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
    if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
    return n;
}

/* A blank and a name as a JSON string; a byte that is no UTF-8 as the character of its number. */
static inline void tmmu_name(tmmu_plan *plan, const char *name) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)name;
    if (!s || !*s) {
        plan->errors++;
        return;
    }
    tmmu_put(plan, " \"");
    while (*s) {
        size_t n = tmmu_utf8(s);
        char text[8] = {0};
        if (!n || *s < 0x20 || *s == '"' || *s == '\\') {
            text[0] = '\\', text[1] = 'u', text[2] = '0', text[3] = '0';
            text[4] = hex[*s >> 4], text[5] = hex[*s & 15];
            s++;
        } else {
            size_t k;
            for (k = 0; k < n; k++) text[k] = (char)*s++;
        }
        tmmu_put(plan, text);
    }
    tmmu_put(plan, "\"");
}

static inline void tmmu_list(tmmu_plan *plan, tmmu_names names) {
    if (names)
        for (; *names; names++) tmmu_name(plan, *names);
}

static inline void tmmu_alignment(tmmu_plan *plan, uint64_t alignment) {
    if (alignment & (alignment - 1)) plan->errors++;
    if (alignment > 1) {
        tmmu_put(plan, " align");
        tmmu_number(plan, alignment);
    }
}

/* Begin a plan. */
static inline tmmu_plan tmmu_plan_open(FILE *out) {
    tmmu_plan plan;
    plan.out = out, plan.errors = 0;
    tmmu_put(&plan, "tmmu-plan-text 1\n");
    return plan;
}

/* End it: 0 where all of it was stated and written. */
static inline int tmmu_plan_close(tmmu_plan *plan) {
    if (fflush(plan->out) || ferror(plan->out)) plan->errors++;
    return plan->errors;
}

/* A memory, or a part of it that is planned by itself. An alignment of 0 or 1 is none. */
static inline void tmmu_arena(tmmu_plan *plan, const char *name, uint64_t capacity, uint64_t alignment) {
    tmmu_put(plan, "arena");
    tmmu_name(plan, name);
    tmmu_number(plan, capacity);
    tmmu_alignment(plan, alignment);
    tmmu_put(plan, "\n");
}

static inline void tmmu_placed(
    tmmu_plan *plan, const char *word, const char *name, uint64_t bytes, const char *arena, uint64_t offset
) {
    tmmu_put(plan, word);
    tmmu_name(plan, name);
    tmmu_number(plan, bytes);
    tmmu_name(plan, arena);
    tmmu_number(plan, offset);
}

static inline void tmmu_flags(tmmu_plan *plan, int flags, uint64_t alignment) {
    static const char *const words[] = {
        " input", " output", " parameter", " optimizer", " gradient", " scratch", " saved", " donated"
    };
    int k;
    for (k = 0; k < 8; k++)
        if (flags >> k & 1) tmmu_put(plan, words[k]);
    tmmu_alignment(plan, alignment);
}

/* A tensor at a byte of an arena. */
static inline void tmmu_tensor(
    tmmu_plan *plan, const char *name, uint64_t bytes, const char *arena, uint64_t offset, int flags, uint64_t alignment
) {
    tmmu_placed(plan, "tensor", name, bytes, arena, offset);
    tmmu_flags(plan, flags, alignment);
    tmmu_put(plan, "\n");
}

/* A tensor that shows another one's bytes, from byte `shift` of it on: the step that writes it writes no byte. */
static inline void tmmu_view(
    tmmu_plan *plan, const char *name, uint64_t bytes, const char *arena, uint64_t offset, int flags, uint64_t alignment,
    const char *base, uint64_t shift
) {
    tmmu_placed(plan, "tensor", name, bytes, arena, offset);
    tmmu_flags(plan, flags, alignment);
    tmmu_put(plan, " view");
    tmmu_name(plan, base);
    tmmu_number(plan, shift);
    tmmu_put(plan, "\n");
}

/* A result in its operand's bytes, which its step reads for the last time. */
static inline void tmmu_in_place(
    tmmu_plan *plan, const char *name, uint64_t bytes, const char *arena, uint64_t offset, int flags, uint64_t alignment,
    const char *operand
) {
    tmmu_placed(plan, "tensor", name, bytes, arena, offset);
    tmmu_flags(plan, flags, alignment);
    tmmu_put(plan, " inplace");
    tmmu_name(plan, operand);
    tmmu_put(plan, "\n");
}

static inline void tmmu_touched(tmmu_plan *plan, tmmu_names reads, tmmu_names writes) {
    tmmu_list(plan, reads);
    tmmu_put(plan, " ->");
    tmmu_list(plan, writes);
}

/* The next step: an operator, `DOMAIN::OP` or `OP`, and what it reads and writes; `changes` are among the writes. */
static inline void tmmu_step(
    tmmu_plan *plan, const char *name, const char *op, tmmu_names reads, tmmu_names writes, tmmu_names changes
) {
    tmmu_put(plan, "step");
    tmmu_name(plan, name);
    tmmu_name(plan, op);
    tmmu_touched(plan, reads, writes);
    if (changes && *changes) {
        tmmu_put(plan, " changes");
        tmmu_list(plan, changes);
    }
    tmmu_put(plan, "\n");
}

/* A node with bodies: tmmu_begin, the steps of the first body, tmmu_arm and those of each further one, tmmu_end. */
static inline void tmmu_begin(
    tmmu_plan *plan, const char *name, const char *op, tmmu_names reads, tmmu_names formals, int how
) {
    tmmu_put(plan, "begin");
    tmmu_name(plan, name);
    tmmu_name(plan, op);
    tmmu_touched(plan, reads, formals);
    tmmu_put(plan, how == TMMU_LOOP ? " loop\n" : how == TMMU_EXCLUSIVE ? " exclusive\n" : "\n");
}

static inline void tmmu_arm(tmmu_plan *plan) {
    tmmu_put(plan, "arm\n");
}

static inline void tmmu_end(tmmu_plan *plan, const char *name, tmmu_names reads, tmmu_names writes) {
    tmmu_put(plan, "end");
    tmmu_name(plan, name);
    tmmu_touched(plan, reads, writes);
    tmmu_put(plan, "\n");
}

/* Bytes that live from one step to another, both included: in place of tensors and steps, where no accesses are known. */
static inline void tmmu_buffer(
    tmmu_plan *plan, const char *name, uint64_t bytes, const char *arena, uint64_t offset, uint32_t first, uint32_t last,
    uint64_t alignment
) {
    tmmu_placed(plan, "buffer", name, bytes, arena, offset);
    tmmu_put(plan, " live");
    tmmu_number(plan, first);
    tmmu_number(plan, last);
    tmmu_alignment(plan, alignment);
    tmmu_put(plan, "\n");
}

/* Two tensors, or buffers, that may share no byte at any step. */
static inline void tmmu_apart(tmmu_plan *plan, const char *one, const char *other) {
    tmmu_put(plan, "apart");
    tmmu_name(plan, one);
    tmmu_name(plan, other);
    tmmu_put(plan, "\n");
}

#endif
