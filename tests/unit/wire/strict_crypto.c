/* SPDX-License-Identifier: Apache-2.0 */
/* A libcrypto as with OpenSSL's FIPS provider and its hmac-key-check: HMAC refuses keys of less than 112 bits. */
#include <dlfcn.h>
#include <stddef.h>

#define KEY_MIN_BYTES 14

typedef unsigned char *hmac_function(const void *digest, const void *key, int key_bytes,
				     const unsigned char *data, size_t bytes, unsigned char *mac,
				     unsigned *mac_bytes);

const void *EVP_sha256(void);
hmac_function HMAC;

/* Of the real library. */
static void *find(const char *name)
{
	void *library = dlopen("libcrypto.so.3", RTLD_NOW);

	if (!library)
		library = dlopen("libcrypto.so.1.1", RTLD_NOW);
	return library ? dlsym(library, name) : NULL;
}

const void *EVP_sha256(void)
{
	const void *(*sha256)(void) = NULL;

	*(void **)&sha256 = find("EVP_sha256");
	return sha256 ? sha256() : NULL;
}

unsigned char *HMAC(const void *digest, const void *key, int key_bytes, const unsigned char *data,
		    size_t bytes, unsigned char *mac, unsigned *mac_bytes)
{
	hmac_function *hmac = NULL;

	*(void **)&hmac = find("HMAC");
	if (!hmac || key_bytes < KEY_MIN_BYTES)
		return NULL;
	return hmac(digest, key, key_bytes, data, bytes, mac, mac_bytes);
}
