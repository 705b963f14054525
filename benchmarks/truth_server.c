// A streaming server whose timing is known: what a perfect client would measure.
//
//     truth_server PORT TTFT_MS ITL_MS [TOKENS_PER_EVENT]
//
// On loopback, every streamed request gets its first event TTFT_MS after the kernel received it
// and one more every ITL_MS, until max_tokens. Each event is stamped just before its send call.
// All instants are CLOCK_REALTIME.
//
//     POST /v1/completions, /v1/chat/completions, /generate (SGLang's)
//     GET /v1/models, /health
//     GET /send_log   one JSON line a request: its X-Request-Id, when it came, each event's stamp
//     GET /stats      TTFT and gaps between events as sent, ms
//     GET /reset      forgets the requests that have ended
#define _GNU_SOURCE
#include "http.h"
#include "send_log.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TOKENS = 1 << 16, READ_BYTES = 64 << 10, BATCH = 256 };

enum api { COMPLETIONS, CHAT, GENERATE };

struct connection {
    int fd;
    bool broken;
    struct bytes in, out;    // not yet understood, not yet taken by the socket
    int64_t arrived_ns;      // stamp of the last read
    struct request *request; // being answered, or NULL
    enum api api;
    bool usage_at_end, usage_always, token_ids;
    int64_t due_ns;
    struct queue *queue;
    TAILQ_ENTRY(connection) next;
};
TAILQ_HEAD(queue, connection);

static int64_t ttft_ns, itl_ns;
static int epoll_fd;
static struct send_log sent = {.tokens_per_event = 1};
// Streams in the order in which they are due. All wait equally long, first TTFT, then ITL.
static struct queue before_first = TAILQ_HEAD_INITIALIZER(before_first);
static struct queue after_first = TAILQ_HEAD_INITIALIZER(after_first);
static char words[4 * MAX_TOKENS], ids[2 * MAX_TOKENS]; // the longest answer

static int64_t nanoseconds(const struct timespec *time) {
    return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return nanoseconds(&time);
}

// Writing: what the socket does not take is kept and goes when it can.

static void watch(struct connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (connection->out.length) event.events |= EPOLLOUT;
    epoll_ctl(epoll_fd, operation, connection->fd, &event);
}

static size_t send_some(struct connection *connection, const struct bytes *bytes) {
    ssize_t count = send(connection->fd, bytes->data, bytes->length, MSG_NOSIGNAL);
    if (count >= 0) return (size_t)count;
    connection->broken |= errno != EAGAIN && errno != EINTR;
    return 0;
}

static void transmit(struct connection *connection, const struct bytes *bytes) {
    bool waiting = connection->out.length > 0;
    size_t count = waiting ? 0 : send_some(connection, bytes);
    if (count == bytes->length || connection->broken) return;
    append(&connection->out, bytes->data + count, bytes->length - count);
    if (!waiting) watch(connection, EPOLL_CTL_MOD);
}

static void transmit_kept(struct connection *connection) {
    drop_front(&connection->out, send_some(connection, &connection->out));
    if (!connection->out.length) watch(connection, EPOLL_CTL_MOD);
}

static void respond(struct connection *connection, const char *status, const char *body) {
    struct bytes answer = {0};
    appendf(&answer, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n", status);
    appendf(&answer, "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
    transmit(connection, &answer);
    free(answer.data);
}

// The schedule.

static void schedule(struct connection *connection, struct queue *queue, int64_t due_ns) {
    connection->due_ns = due_ns;
    connection->queue = queue;
    struct connection *earlier = TAILQ_LAST(queue, queue);
    while (earlier && earlier->due_ns > due_ns) earlier = TAILQ_PREV(earlier, queue, next);
    if (earlier) TAILQ_INSERT_AFTER(queue, earlier, connection, next);
    else TAILQ_INSERT_HEAD(queue, connection, next);
}

static void unschedule(struct connection *connection) {
    if (connection->queue) TAILQ_REMOVE(connection->queue, connection, next);
    connection->queue = NULL;
}

static struct connection *next_due(void) {
    struct connection *first = TAILQ_FIRST(&before_first), *later = TAILQ_FIRST(&after_first);
    return !first || (later && later->due_ns < first->due_ns) ? later : first;
}

// Events, in the form of vLLM and SGLang, each in an HTTP chunk of its own.

static void append_event(struct bytes *bytes, const char *payload) {
    appendf(bytes, "%zx\r\ndata: %s\n\n\r\n", strlen(payload) + 8, payload);
}

static void append_usage(struct bytes *bytes, int tokens) {
    appendf(bytes, ",\"usage\":{\"prompt_tokens\":16,\"completion_tokens\":%d", tokens);
    appendf(bytes, ",\"total_tokens\":%d}", 16 + tokens);
}

static void append_generated(struct bytes *bytes, int tokens, bool last) { // all of it so far
    appendf(bytes, "{\"text\":\"%.*s\",\"output_ids\":[", 4 * tokens, words);
    appendf(bytes, "%.*s],\"meta_info\":{\"id\":\"1\"", 2 * tokens - 1, ids);
    appendf(bytes, ",\"finish_reason\":%s", last ? "{\"type\":\"length\",\"length\":1}" : "null");
    appendf(bytes, ",\"prompt_tokens\":16,\"completion_tokens\":%d,\"cached_tokens\":0}}", tokens);
}

static void append_choice(struct bytes *bytes, const struct connection *connection, int tokens,
                          bool last) {
    bool chat = connection->api == CHAT;
    appendf(bytes, "{\"id\":\"1\",\"object\":\"%s\",\"created\":1,\"model\":\"tiny\"",
            chat ? "chat.completion.chunk" : "text_completion");
    appendf(bytes, ",\"choices\":[{\"index\":0,%s", chat ? "\"delta\":{\"content\":" : "\"text\":");
    appendf(bytes, "\"%.*s\"%s", 4 * tokens, words, chat ? "}" : "");
    appendf(bytes, ",\"logprobs\":null,\"finish_reason\":%s", last ? "\"length\"" : "null");
    if (connection->token_ids) appendf(bytes, ",\"token_ids\":[%.*s]", 2 * tokens - 1, ids);
    appendf(bytes, "}]");
    if (connection->usage_always) append_usage(bytes, connection->request->sent_tokens);
    appendf(bytes, "}");
}

static void send_ending(struct connection *connection) {
    struct bytes tail = {0}, usage = {0};
    if (connection->usage_at_end) {
        appendf(&usage, "{\"id\":\"1\",\"created\":1,\"model\":\"tiny\",\"choices\":[]");
        append_usage(&usage, connection->request->sent_tokens);
        appendf(&usage, "}");
        append_event(&tail, usage.data);
    }
    append_event(&tail, "[DONE]");
    appendf(&tail, "0\r\n\r\n");
    transmit(connection, &tail);
    free(usage.data);
    free(tail.data);
}

static void send_event(struct connection *connection) {
    static struct bytes payload, event; // their room is kept from one event to the next
    struct request *request = connection->request;
    int left = request->max_tokens - request->sent_tokens;
    int tokens = sent.tokens_per_event < left ? sent.tokens_per_event : left;
    request->sent_tokens += tokens;
    payload.length = event.length = 0;
    if (connection->api == CHAT && !request->events)
        append_event(&event, "{\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
                             "\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}");
    if (connection->api == GENERATE)
        append_generated(&payload, request->sent_tokens, tokens == left);
    else append_choice(&payload, connection, tokens, tokens == left);
    append_event(&event, payload.data);
    unschedule(connection);
    if (tokens < left) schedule(connection, &after_first, connection->due_ns + itl_ns);
    request->sent_ns[request->events++] = now_ns();
    transmit(connection, &event);
    if (tokens < left) return;
    send_ending(connection);
    request->ended = true;
    connection->request = NULL;
}

// Requests.

static void begin_stream(struct connection *connection, const char *head, const char *body) {
    static const char *const names[] = {"\"max_tokens\"", "\"max_completion_tokens\"",
                                        "\"max_new_tokens\""};
    long tokens = 0;
    for (int i = 0; i < 3 && tokens <= 0; i++) tokens = strtol(member(body, names[i]), NULL, 10);
    if (tokens <= 0 || tokens > MAX_TOKENS || !is_true(body, "\"stream\"")) {
        respond(connection, "400 Bad Request", "{\"error\":\"give stream: true, max_tokens: N\"}");
        return;
    }
    connection->usage_at_end = connection->api != GENERATE && is_true(body, "\"include_usage\"");
    connection->usage_always = is_true(body, "\"continuous_usage_stats\"");
    connection->token_ids = is_true(body, "\"return_token_ids\"");
    connection->request = log_request(&sent, connection->arrived_ns, (int)tokens);
    const char *id = header(head, "X-Request-Id");
    snprintf(connection->request->id, sizeof connection->request->id, "%.*s",
             (int)strcspn(id, "\r\"\\"), id);
    schedule(connection, &before_first, connection->arrived_ns + ttft_ns);
    struct bytes start = {0};
    appendf(&start, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n");
    transmit(connection, &start);
    free(start.data);
}

static void answer(struct connection *connection, const char *head, const char *body) {
    static const struct { const char *path; enum api api; } streams[] = {
        {"POST /v1/completions ", COMPLETIONS},
        {"POST /v1/chat/completions ", CHAT},
        {"POST /generate ", GENERATE},
    };
    for (int i = 0; i < 3; i++) {
        if (strncmp(head, streams[i].path, strlen(streams[i].path))) continue;
        connection->api = streams[i].api;
        begin_stream(connection, head, body);
        return;
    }
    struct bytes said = {0};
    if (!strncmp(head, "GET /v1/models ", 15))
        appendf(&said, "{\"object\":\"list\",\"data\":[{\"id\":\"tiny\",\"object\":\"model\","
                       "\"created\":1,\"owned_by\":\"truth\",\"max_model_len\":%d}]}", MAX_TOKENS);
    else if (!strncmp(head, "GET /send_log ", 14)) append_log(&said, &sent);
    else if (!strncmp(head, "GET /stats ", 11)) append_stats(&said, &sent);
    else if (!strncmp(head, "GET /reset ", 11)) forget_ended(&sent);
    else if (strncmp(head, "GET /health ", 12)) {
        respond(connection, "404 Not Found", "{\"error\":\"no such page\"}");
        return;
    }
    respond(connection, "200 OK", said.length ? said.data : "{}");
    free(said.data);
}

// Answers the request at the front of what came; false if none is whole.
static bool take_request(struct connection *connection) {
    struct bytes *in = &connection->in, body = {0};
    const char *head_end = in->length ? strstr(in->data, "\r\n\r\n") : NULL;
    if (!head_end) return false;
    size_t head = (size_t)(head_end - in->data) + 4, rest = in->length - head;
    char *headers = checked(strndup(in->data, head));
    ssize_t length;
    if (!strncasecmp(header(headers, "Transfer-Encoding"), "chunked", 7))
        length = take_chunked(head_end + 4, rest, &body);
    else
        length = take_plain(head_end + 4, rest,
                            strtoul(header(headers, "Content-Length"), NULL, 10), &body);
    if (length >= 0) {
        drop_front(in, head + (size_t)length);
        append(&body, "", 0);
        answer(connection, headers, body.data);
    } else if (length == BAD) connection->broken = true;
    free(headers);
    free(body.data);
    return length >= 0;
}

// A request's clock starts when it reached this host, not when we got to it.
static void read_some(struct connection *connection) {
    struct iovec room = {reserve(&connection->in, READ_BYTES), READ_BYTES};
    char control[128];
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t count = recvmsg(connection->fd, &message, 0);
    if (count <= 0) {
        connection->broken |= count == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    connection->in.length += (size_t)count;
    connection->in.data[connection->in.length] = 0;
    connection->arrived_ns = now_ns();
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS)
            connection->arrived_ns = nanoseconds((const struct timespec *)CMSG_DATA(c));
    connection->broken |= connection->in.length > MAX_REQUEST;
}

static void drop(struct connection *connection) {
    unschedule(connection);
    if (connection->request) connection->request->ended = true;
    close(connection->fd);
    free(connection->in.data);
    free(connection->out.data);
    free(connection);
}

static void serve(struct connection *connection, uint32_t events) {
    if (events & EPOLLOUT) transmit_kept(connection);
    if (events & ~(uint32_t)EPOLLOUT) read_some(connection);
    while (!connection->broken && !connection->request && take_request(connection)) continue;
    if (connection->broken) drop(connection);
}

static void accept_all(int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct connection *connection = checked(calloc(1, sizeof *connection));
        connection->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
        watch(connection, EPOLL_CTL_ADD);
    }
}

static int listen_on(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("truth_server: cannot listen");
        exit(1);
    }
    return listener;
}

static void send_due(void) {
    struct connection *connection;
    while ((connection = next_due()) && connection->due_ns <= now_ns()) {
        send_event(connection);
        if (!connection->request) serve(connection, 0); // what was sent ahead of its turn
        else if (connection->broken) drop(connection);
    }
}

static int wait_events(struct epoll_event *events) {
    struct connection *first = next_due();
    int64_t pause = first ? first->due_ns - now_ns() : 0;
    struct timespec time = {.tv_sec = pause > 0 ? pause / 1000000000 : 0,
                            .tv_nsec = pause > 0 ? pause % 1000000000 : 0};
    return epoll_pwait2(epoll_fd, events, BATCH, first ? &time : NULL, NULL);
}

int main(int count, char **given) {
    if (count < 4 || count > 5) {
        fputs("usage: truth_server PORT TTFT_MS ITL_MS [TOKENS_PER_EVENT]\n", stderr);
        return 2;
    }
    ttft_ns = (int64_t)(strtod(given[2], NULL) * 1e6);
    itl_ns = (int64_t)(strtod(given[3], NULL) * 1e6);
    if (count == 5) sent.tokens_per_event = atoi(given[4]);
    for (int i = 0; i < MAX_TOKENS; i++) {
        memcpy(words + 4 * i, " end", 4);
        memcpy(ids + 2 * i, "7,", 2);
    }
    prctl(PR_SET_TIMERSLACK, 1UL); // else the kernel may be 50 us late
    epoll_fd = epoll_create1(0);
    int listener = listen_on(atoi(given[1]));
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN});
    for (;;) {
        struct epoll_event events[BATCH];
        int ready = wait_events(events);
        for (int i = 0; i < ready; i++)
            if (events[i].data.ptr) serve(events[i].data.ptr, events[i].events);
            else accept_all(listener);
        send_due();
    }
}
