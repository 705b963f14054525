// Bytes that grow. Out of memory ends the program.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    char *data; // once there is any, with a zero after the last
    size_t length, room;
};

static void *checked(void *memory) {
    if (memory) return memory;
    perror("out of memory");
    exit(1);
}

// Room for `more` and a zero; where it begins.
static char *reserve(struct bytes *bytes, size_t more) {
    if (bytes->length + more >= bytes->room) {
        bytes->room = 2 * (bytes->length + more) + 512;
        bytes->data = checked(realloc(bytes->data, bytes->room));
    }
    return bytes->data + bytes->length;
}

static void append(struct bytes *bytes, const char *data, size_t length) {
    memcpy(reserve(bytes, length), data, length);
    bytes->length += length;
    bytes->data[bytes->length] = 0;
}

static __attribute__((format(printf, 2, 3))) void appendf(struct bytes *bytes, const char *format,
                                                          ...) {
    for (size_t room = 512;;) {
        va_list values;
        va_start(values, format);
        size_t length = (size_t)vsnprintf(reserve(bytes, room), room, format, values);
        va_end(values);
        if (length < room) {
            bytes->length += length;
            return;
        }
        room = length + 1;
    }
}

static void drop_front(struct bytes *bytes, size_t count) {
    if (!count) return;
    bytes->length -= count;
    memmove(bytes->data, bytes->data + count, bytes->length + 1);
}
