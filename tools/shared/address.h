/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses as text, and what the host knows about its own. */
#ifndef PAIR_ADDRESS_H
#define PAIR_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESS_TEXT 64

socklen_t address_bytes(const struct sockaddr_storage *addr);

/* Numeric only: "10.0.0.1" or "fe80::1%eth0", never a name that is looked up. False: it is none. */
bool address_parse(const char *text, int port, struct sockaddr_storage *addr);

/* The address without its port, IPv4 in IPv6 as IPv4. Returns `text`, of ADDRESS_TEXT bytes. */
const char *address_print(const struct sockaddr_storage *addr, char *text);

int address_port(const struct sockaddr_storage *addr);
void address_set_port(struct sockaddr_storage *addr, int port);

/* IPv4 in IPv6 becomes IPv4. */
void address_plain(struct sockaddr_storage *addr);

bool address_is_loopback(const struct sockaddr_storage *addr);

/* A numeric address that other hosts may dial: not loopback, not of all or many hosts. */
bool address_is_dialled(const char *text);

/* The interface that has this address, into name (IFNAMSIZ bytes; "" = none has), and its MTU or 0. */
int address_interface(const struct sockaddr_storage *addr, char *name);

/* By its driver, an interface of a container or a virtual machine: no cable is seen from it. */
bool interface_is_virtual(const char *name);

#endif
