/* Stands between a child process and its sync calls. Built and preloaded by the crash tests.
 *
 * Every fsync and fdatasync of a file below SHIM_DIR is written to SHIM_LOG as one line,
 * "D inode size name" (fdatasync) or "F inode size name" (fsync), after it succeeded. New journals
 * are longer than what was written to them, so for these the size is how far writing has come, or,
 * for who opened one to read and write it, where its last block with data ends.
 * SHIM_FAIL=n makes the n-th fdatasync of a journal fail with EIO, without syncing.
 * SHIM_EXIT=n ends the process instead of the n-th call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;
static atomic_long journal_data_syncs;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static int path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, size - 1);
    if (len < 0) return 0;
    path[len] = 0;
    const char *dir = getenv("SHIM_DIR");
    return dir && strncmp(path, dir, strlen(dir)) == 0;
}

static unsigned long long data_end(int fd) {
    off_t place = lseek(fd, 0, SEEK_CUR), end = 0, data;
    while ((data = lseek(fd, end, SEEK_DATA)) >= 0) end = lseek(fd, data, SEEK_HOLE);
    lseek(fd, place, SEEK_SET);
    return end;
}

static unsigned long long written(int fd, const struct stat *st, const char *path) {
    size_t len = strlen(path);
    int flags = fcntl(fd, F_GETFL);
    if (len > 4 && strcmp(path + len - 4, ".jnl") == 0 && (flags & O_ACCMODE) == O_RDWR)
        return data_end(fd);
    int is_new_journal = len > 4 && strcmp(path + len - 4, ".jnl") == 0 &&
                         (flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND);
    return is_new_journal ? lseek(fd, 0, SEEK_CUR) : st->st_size;
}

/* What is written to LINE once the call has succeeded: what comes later may not be synced. */
static int describe(char kind, int fd, const char *path, char *line, size_t size) {
    struct stat st;
    if (fstat(fd, &st) != 0) return 0;
    return snprintf(line, size, "%c %llu %llu %s\n", kind, (unsigned long long)st.st_ino,
                    written(fd, &st, path), strrchr(path, '/') + 1);
}

static void record(const char *line, int len) {
    const char *log = getenv("SHIM_LOG");
    if (!log || len == 0) return;
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0) abort();
    if (write(out, line, len) != len) abort();
    close(out);
}

static int intercept(char kind, int fd, int (*real)(int)) {
    char path[4096];
    if (!path_of(fd, path, sizeof path)) return real(fd);
    if (atomic_fetch_add(&calls, 1) + 1 == number("SHIM_EXIT")) _exit(77);
    size_t len = strlen(path);
    if (kind == 'D' && len > 4 && strcmp(path + len - 4, ".jnl") == 0 &&
        atomic_fetch_add(&journal_data_syncs, 1) + 1 == number("SHIM_FAIL")) {
        errno = EIO;
        return -1;
    }
    char line[4200];
    int described = describe(kind, fd, path, line, sizeof line);
    int result = real(fd);
    if (result == 0) record(line, described);
    return result;
}

int fsync(int fd) {
    return intercept('F', fd, (int (*)(int))dlsym(RTLD_NEXT, "fsync"));
}

int fdatasync(int fd) {
    return intercept('D', fd, (int (*)(int))dlsym(RTLD_NEXT, "fdatasync"));
}
