/* The least that a sandbox can cost, and a stopwatch for other programs.
 *
 *   limit box   PLACES LOWER            clone with every namespace, overlay, proc, pivot_root, exec /bin/true, wait
 *   limit spawn PLACES PROGRAM ARG...   posix_spawn, wait
 *
 * Reads one number a line, does as many cycles, and prints the milliseconds of each, then an empty line. Each cycle
 * has a directory of its own below PLACES (0, 1, 2, ...), made beforehand with "upper", "work" and "mnt" in it: a
 * volatile overlay wants a fresh work directory, and making one is no part of the limit.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

extern char **environ;
static char overlay_options[4096];

static void fail(const char *what) {
    perror(what);
    _exit(100);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) fail(path);
    close(fd);
}

static void be_root_of(unsigned uid, unsigned gid) {
    char map[64];
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    write_file("/proc/self/gid_map", map);
}

static void box_main(unsigned uid, unsigned gid) {
    char *argv[] = {"/bin/true", NULL};
    be_root_of(uid, gid);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("private mounts");
    if (mount("overlay", "mnt", "overlay", 0, overlay_options)) fail("overlay");
    if (mount("proc", "mnt/proc", "proc", 0, NULL)) fail("proc");
    if (chdir("mnt") || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH)) fail("pivot_root");
    execve(argv[0], argv, environ);
    fail(argv[0]);
}

static pid_t start_box(void) {
    unsigned uid = getuid(), gid = getgid();
    pid_t pid = syscall(SYS_clone, NAMESPACES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) box_main(uid, gid);
    if (pid < 0) fail("clone");
    return pid;
}

static pid_t start_program(char **argv) {
    pid_t pid;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ)) fail(argv[0]);
    return pid;
}

static double cycle_ms(const char *places, long number, char **program) {
    char place[4096];
    int status;
    snprintf(place, sizeof place, "%s/%ld", places, number);
    if (chdir(place)) fail(place);
    double start = now_ms();
    pid_t pid = program ? start_program(program) : start_box();
    if (waitpid(pid, &status, 0) < 0) fail("waitpid");
    double end = now_ms();
    if (status) {
        fprintf(stderr, "cycle %ld ended with status %#x\n", number, status);
        exit(1);
    }
    return end - start;
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    int is_box = !strcmp(arguments[1], "box");
    snprintf(overlay_options, sizeof overlay_options, "lowerdir=%s,upperdir=upper,workdir=work,userxattr,volatile",
             arguments[3]);
    for (long done = 0, cycles; scanf("%ld", &cycles) == 1; done += cycles) {
        double *times = malloc(cycles * sizeof *times);
        for (long i = 0; i < cycles; i++)
            times[i] = cycle_ms(arguments[2], done + i, is_box ? NULL : arguments + 3);
        for (long i = 0; i < cycles; i++) printf("%.4f\n", times[i]);
        printf("\n");
        fflush(stdout);
        free(times);
    }
    return 0;
}
