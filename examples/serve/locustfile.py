"""Users who complete a text again and again: locust --headless --users 16 --host ADDRESS"""

from locust import FastHttpUser, task


class Client(FastHttpUser):
    @task
    def complete(self):
        # 16 tokens each time, so that every request takes as long.
        asked = {"prompt": "The old dog", "max_tokens": 16, "ignore_eos": True}
        with self.client.post("/v1/completions", json=asked, catch_response=True) as answer:
            if answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] != 16:
                answer.failure("wrong number of tokens")
