// The cookie is set: on to the page, with what the address says, and without the token.
location.replace(`/${location.hash}`);
