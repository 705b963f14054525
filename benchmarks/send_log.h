// What a server sent and when, and the figures that follow from it. Instants are ns.
#pragma once
#include "bytes.h"
#include <stdbool.h>
#include <stdint.h>

struct request {
    char id[80];
    int64_t received_ns;
    int64_t *sent_ns; // of each event
    int events, sent_tokens, max_tokens;
    bool ended;
};

struct send_log {
    struct request **requests;
    size_t count, room;
    int tokens_per_event;
};

static struct request *log_request(struct send_log *log, int64_t received_ns, int max_tokens) {
    if (log->count == log->room) {
        log->room = 2 * log->room + 1024;
        log->requests = checked(realloc(log->requests, log->room * sizeof *log->requests));
    }
    struct request *request = checked(calloc(1, sizeof *request));
    int events = (max_tokens + log->tokens_per_event - 1) / log->tokens_per_event;
    request->sent_ns = checked(calloc((size_t)events, sizeof *request->sent_ns));
    request->received_ns = received_ns;
    request->max_tokens = max_tokens;
    return log->requests[log->count++] = request;
}

// Requests under way stay.
static void forget_ended(struct send_log *log) {
    size_t kept = 0;
    for (size_t i = 0; i < log->count; i++) {
        struct request *request = log->requests[i];
        if (!request->ended) {
            log->requests[kept++] = request;
            continue;
        }
        free(request->sent_ns);
        free(request);
    }
    log->count = kept;
}

// {"id", "received_ns", "events": [[ns, tokens], ...]}
static void append_line(struct bytes *bytes, const struct request *request, int tokens_per_event) {
    appendf(bytes, "{\"id\":\"%s\",\"received_ns\":%jd,\"events\":[", request->id,
            (intmax_t)request->received_ns);
    for (int event = 0; event < request->events; event++) {
        int left = request->sent_tokens - event * tokens_per_event;
        int tokens = left < tokens_per_event ? left : tokens_per_event;
        intmax_t at_ns = request->sent_ns[event];
        appendf(bytes, "%s[%jd,%d]", event ? "," : "", at_ns, tokens);
    }
    appendf(bytes, "]}\n");
}

static void append_log(struct bytes *bytes, const struct send_log *log) {
    for (size_t i = 0; i < log->count; i++)
        append_line(bytes, log->requests[i], log->tokens_per_event);
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Between ranks as numpy does by default.
static double percentile(const double *sorted, size_t count, double share) {
    double rank = share * (double)(count - 1);
    size_t below = (size_t)rank, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - (double)below) * (sorted[above] - sorted[below]);
}

static void append_figures(struct bytes *bytes, const char *name, double *ms, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += ms[i];
    qsort(ms, count, sizeof *ms, ascending);
    appendf(bytes, "\"%s\":{\"n\":%zu", name, count);
    if (count)
        appendf(bytes, ",\"mean\":%.4f,\"p50\":%.4f,\"p90\":%.4f,\"p99\":%.4f,\"max\":%.4f",
                sum / (double)count, percentile(ms, count, 0.5), percentile(ms, count, 0.9),
                percentile(ms, count, 0.99), ms[count - 1]);
    appendf(bytes, "}");
}

static void append_stats(struct bytes *bytes, const struct send_log *log) {
    size_t events = 0, firsts = 0, gaps = 0;
    for (size_t i = 0; i < log->count; i++) events += (size_t)log->requests[i]->events;
    double *ttft_ms = checked(calloc(log->count + 1, sizeof *ttft_ms));
    double *gap_ms = checked(calloc(events + 1, sizeof *gap_ms));
    for (size_t i = 0; i < log->count; i++) {
        const struct request *request = log->requests[i];
        const int64_t *at = request->sent_ns;
        if (request->events) ttft_ms[firsts++] = (double)(at[0] - request->received_ns) / 1e6;
        for (int event = 1; event < request->events; event++)
            gap_ms[gaps++] = (double)(at[event] - at[event - 1]) / 1e6;
    }
    appendf(bytes, "{");
    append_figures(bytes, "ttft_ms", ttft_ms, firsts);
    appendf(bytes, ",");
    append_figures(bytes, "itl_ms", gap_ms, gaps);
    appendf(bytes, ",\"requests\":%zu,\"events\":%zu}\n", log->count, events);
    free(ttft_ms);
    free(gap_ms);
}
