/* A disk that fails on command, for LD_PRELOAD. SHIFTBOSS_TEST_DISK names a file whose first byte
 * says how: 0 works, 'f' fsync fails, 's' fsync is slow, 'w' there is no space, 'r' it is read-only.
 * Only files whose name contains ".db" are concerned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile char *mode = NULL;

__attribute__((constructor)) static void open_mode(void) {
    const char *path = getenv("SHIFTBOSS_TEST_DISK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) mode = mapped;
}

static char mode_of(int file) {
    char link[64], name[4096];
    if (!mode || !*mode) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return strstr(name, ".db") ? *mode : 0;
}

static int sync_file(int file, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char how = mode_of(file);
    if (how == 'f') { errno = EIO; return -1; }
    if (how == 's') usleep(300000);
    return real(file);
}

int fsync(int file) { return sync_file(file, "fsync"); }
int fdatasync(int file) { return sync_file(file, "fdatasync"); }

static ssize_t write_at(int file, const void *data, size_t count, off64_t at, const char *name) {
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, name);
    char how = mode_of(file);
    if (how == 'w') { errno = ENOSPC; return -1; }
    if (how == 'r') { errno = EROFS; return -1; }
    return real(file, data, count, at);
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t at) {
    return write_at(file, data, count, at, "pwrite64");
}
ssize_t pwrite(int file, const void *data, size_t count, off_t at) {
    return write_at(file, data, count, at, "pwrite");
}
