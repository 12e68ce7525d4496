/* SPDX-License-Identifier: Apache-2.0 */
/* main of a fuzzer built without libFuzzer: runs the given files and directories once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned inputs;

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t bytes = 0, room = 0;

	if (!file) {
		perror(path);
		return -1;
	}
	while (!feof(file) && !ferror(file)) {
		if (bytes == room) {
			void *bigger = realloc(data, room += 65536);

			if (!bigger)
				abort();
			data = bigger;
		}
		bytes += fread(data + bytes, 1, room - bytes, file);
	}
	fclose(file);
	/* An exact allocation, so that a sanitizer detects a read past the end. */
	data = realloc(data, bytes ? bytes : 1);
	if (!data)
		abort();
	LLVMFuzzerTestOneInput(data, bytes);
	free(data);
	inputs++;
	return 0;
}

static int replay(const char *path)
{
	struct dirent *entry;
	struct stat st;
	char name[4096];
	int ret = 0;
	DIR *dir;

	if (stat(path, &st)) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(path);
	dir = opendir(path);
	if (!dir) {
		perror(path);
		return -1;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		ret |= replay(name);
	}
	closedir(dir);
	return ret;
}

int main(int argc, char **argv)
{
	int ret = LLVMFuzzerTestOneInput((const uint8_t *)"", 0);

	for (int i = 1; i < argc; i++)
		ret |= replay(argv[i]);
	printf("%u inputs\n", inputs);
	return ret ? 1 : 0;
}
