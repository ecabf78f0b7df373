// The cookie is set: continue to the page with the address, without the token.
location.replace(`/${location.hash}`);
