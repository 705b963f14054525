// HTTP requests and their JSON, as far as a truth server needs them.
#pragma once
#include "bytes.h"
#include <stdbool.h>
#include <sys/types.h>

enum { MAX_REQUEST = 64 << 20 };

// The value of a member, or "". Inside a string quotes are escaped, so no name is found there.
static const char *member(const char *body, const char *quoted) {
    const char *found = strstr(body, quoted);
    if (!found) return "";
    found += strlen(quoted);
    return found + strspn(found, " \t\r\n:");
}

static bool is_true(const char *body, const char *quoted) {
    return !strncmp(member(body, quoted), "true", 4);
}

// A header's value up to the end of its line and beyond, or "".
static const char *header(const char *head, const char *name) {
    size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, length) || line[2 + length] != ':') continue;
        return line + 3 + length + strspn(line + 3 + length, " \t");
    }
    return "";
}

enum { MORE = -1, BAD = -2 };

// Both decode a body to `body` and return its length as it came, or MORE, or BAD.

static ssize_t take_plain(const char *data, size_t length, size_t announced, struct bytes *body) {
    if (announced > MAX_REQUEST) return BAD;
    if (announced > length) return MORE;
    append(body, data, announced);
    return (ssize_t)announced;
}

static ssize_t take_chunked(const char *data, size_t length, struct bytes *body) {
    for (const char *at = data;;) {
        const char *line_end = strstr(at, "\r\n");
        if (!line_end) return MORE;
        char *digits_end;
        size_t size = strtoul(at, &digits_end, 16);
        if (digits_end == at || size > MAX_REQUEST) return BAD;
        if (!size) { // trailers, then an empty line
            const char *end = strstr(line_end, "\r\n\r\n");
            return end ? end + 4 - data : MORE;
        }
        if ((size_t)(data + length - line_end) < size + 4) return MORE;
        append(body, line_end + 2, size);
        at = line_end + 2 + size + 2;
    }
}
